//! What a device with zones takes and refuses (ZBC-2, ZNS).

use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::{
    Device, Error, IoBuf, Result, ZoneAction, ZoneCondition, ZoneKind, ZoneProblem, ZoneReport,
    Zoned,
};

/// Checks the zones of `device`, which was never written, has more sequential zones than may be written at a time, and keeps
/// data.
///
/// # Panics
/// When the device breaks the contract.
pub async fn check_zones(device: &dyn Device) {
    let zoned = device.zones().expect("a device with zones");
    let zones = all_zones(device, zoned);
    let sequential: Vec<ZoneReport> =
        zones.iter().filter(|zone| zone.kind == ZoneKind::Sequential).copied().collect();
    for zone in zones.iter().filter(|zone| zone.kind == ZoneKind::Conventional) {
        check_conventional(device, zoned, zone).await;
    }
    let conventional = zones.iter().rev().find(|zone| zone.kind == ZoneKind::Conventional);
    if let Some(end) = conventional.map(|zone| zone.blocks.end()) {
        // Over the end of the last conventional zone.
        let refused = device.write(Lbn(end.0 - 1), filled(BlockCount(2), 1)).await;
        assert_eq!(refusal(refused), ZoneProblem::PastEnd { end });
    }
    let [zone, next, ..] = sequential.as_slice() else { panic!("fewer than two sequential zones") };
    check_writes(device, zoned, zone.blocks, next.blocks).await;
    check_actions(device, zoned, zone.blocks).await;
    let firsts: Vec<Lbn> = sequential.iter().map(|zone| zone.blocks.first).collect();
    check_limits(device, zoned, &firsts).await;
}

fn all_zones(device: &dyn Device, zoned: &dyn Zoned) -> Vec<ZoneReport> {
    let end = device.inquiry().all_blocks().end();
    let (mut at, mut zones) = (Lbn(0), Vec::new());
    while at < end {
        let zone = zoned.zone(at).expect("a zone");
        assert_eq!(zone.blocks.first, at, "zones do not tile");
        let last = Lbn(zone.blocks.end().0 - 1);
        assert_eq!(zoned.zone(last).expect("the same zone"), zone);
        assert_eq!(device.ensemble(last).expect("its ensemble").blocks, zone.blocks);
        zones.push(zone);
        at = zone.blocks.end();
    }
    assert_eq!(at, end);
    assert!(matches!(zoned.zone(end), Err(Error::PastEnd { .. })));
    zones
}

fn filled(count: BlockCount, byte: u8) -> IoBuf {
    let mut data = IoBuf::zeroed(count);
    data.fill(byte);
    data
}

async fn reads(device: &dyn Device, blocks: BlockRange, byte: u8) {
    let data = device.read(blocks).await.expect("a read");
    assert!(data.iter().all(|found| *found == byte), "{blocks} do not hold {byte}");
}

fn refusal<T: std::fmt::Debug>(result: Result<T>) -> ZoneProblem {
    match result {
        Err(Error::Zone { problem, .. }) => problem,
        other => panic!("not refused: {other:?}"),
    }
}

async fn check_conventional(device: &dyn Device, zoned: &dyn Zoned, zone: &ZoneReport) {
    let last = Lbn(zone.blocks.end().0 - 1);
    for byte in [1, 2] {
        device.write(last, filled(BlockCount(1), byte)).await.expect("a conventional zone");
        reads(device, BlockRange::new(last, BlockCount(1)), byte).await;
    }
    let managed = zoned.manage(zone.blocks.first, ZoneAction::Reset).await;
    assert_eq!(refusal(managed), ZoneProblem::Conventional);
    let appended = zoned.append(zone.blocks.first, filled(BlockCount(1), 3)).await;
    assert_eq!(refusal(appended), ZoneProblem::Conventional);
}

async fn check_writes(device: &dyn Device, zoned: &dyn Zoned, zone: BlockRange, next: BlockRange) {
    let unit = device.inquiry().physical_block;
    let write = |first: Lbn, byte| device.write(first, filled(unit, byte));
    let pointer = || zoned.zone(zone.first).expect("the zone").write_pointer;
    let not_at = |write_pointer| ZoneProblem::NotAtWritePointer { write_pointer };
    assert!(zone.count.0 >= 4 * unit.0, "a zone of {zone} is too small to be checked");

    assert_eq!(refusal(write(zone.first + unit, 1).await), not_at(zone.first));
    assert_eq!(pointer(), zone.first);
    write(zone.first, 1).await.expect("the first write of a zone");
    assert_eq!(zoned.zone(zone.first).expect("the zone").condition, ZoneCondition::ImplicitlyOpen);
    assert_eq!(refusal(write(zone.first, 2).await), not_at(zone.first + unit));
    assert_eq!(refusal(write(zone.first + unit + unit, 2).await), not_at(zone.first + unit));
    let appended = zoned.append(zone.first, filled(unit, 2)).await.expect("an append");
    assert_eq!(appended, zone.first + unit);
    reads(device, BlockRange::new(zone.first, unit), 1).await;
    reads(device, BlockRange::new(appended, unit), 2).await;
    reads(device, BlockRange::between(pointer(), next.end()), 0).await;
    let refused = zoned.append(zone.first + unit, filled(unit, 2)).await;
    assert_eq!(refusal(refused), ZoneProblem::NotFirst);

    // Over the end of the zone, by a write and by an append.
    let rest = BlockRange::between(pointer(), zone.end()).count;
    let over = || filled(rest + unit, 3);
    let past_end = ZoneProblem::PastEnd { end: zone.end() };
    assert_eq!(refusal(device.write(pointer(), over()).await), past_end);
    assert_eq!(refusal(zoned.append(zone.first, over()).await), past_end);
    device.write(pointer(), filled(rest, 3)).await.expect("the rest of the zone");
    assert_eq!(zoned.zone(zone.first).expect("the zone").condition, ZoneCondition::Full);
    assert_eq!(pointer(), zone.end());
    assert_eq!(refusal(write(zone.first, 4).await), ZoneProblem::Full);
    assert_eq!(refusal(zoned.append(zone.first, filled(unit, 4)).await), ZoneProblem::Full);
    zoned.manage(zone.first, ZoneAction::Reset).await.expect("a reset");
    reads(device, zone, 0).await;
}

async fn check_actions(device: &dyn Device, zoned: &dyn Zoned, zone: BlockRange) {
    use ZoneCondition::{Closed, Empty, ExplicitlyOpen, Full};
    let act = |action| zoned.manage(zone.first, action);
    let condition = || zoned.zone(zone.first).expect("the zone").condition;
    let refused = |action, condition| ZoneProblem::Transition { action, condition };
    let unit = device.inquiry().physical_block;

    assert_eq!(condition(), Empty);
    act(ZoneAction::Reset).await.expect("an empty zone is empty");
    assert_eq!(refusal(act(ZoneAction::Close).await), refused(ZoneAction::Close, Empty));
    act(ZoneAction::Open).await.expect("open");
    assert_eq!(condition(), ExplicitlyOpen);
    act(ZoneAction::Close).await.expect("close");
    assert_eq!(condition(), Empty, "nothing was written");
    device.write(zone.first, filled(unit, 5)).await.expect("a write");
    act(ZoneAction::Close).await.expect("close");
    assert_eq!(condition(), Closed);
    act(ZoneAction::Finish).await.expect("finish");
    assert_eq!(
        (condition(), zoned.zone(zone.first).expect("it").write_pointer),
        (Full, zone.end())
    );
    assert_eq!(refusal(act(ZoneAction::Open).await), refused(ZoneAction::Open, Full));
    assert_eq!(refusal(act(ZoneAction::Close).await), refused(ZoneAction::Close, Full));
    reads(device, BlockRange::new(zone.first, unit), 5).await;
    reads(device, BlockRange::between(zone.first + unit, zone.end()), 0).await;
    act(ZoneAction::Reset).await.expect("reset");
    act(ZoneAction::Finish).await.expect("an empty zone is finished");
    assert_eq!(condition(), Full);
    act(ZoneAction::Reset).await.expect("reset");
    let nothing = zoned.append(zone.first, IoBuf::zeroed(BlockCount::ZERO)).await;
    assert!(matches!(nothing, Err(Error::BufferMismatch { .. })), "{nothing:?}");
    assert_eq!(condition(), Empty);
}

async fn check_limits(device: &dyn Device, zoned: &dyn Zoned, firsts: &[Lbn]) {
    let unit = device.inquiry().physical_block;
    let limits = zoned.zone_limits();
    let open = limits.open as usize;
    let (some, rest) = firsts.split_at_checked(open).expect("more zones than may be open");
    let another = *rest.first().expect("more zones than may be open");
    let condition = |first: Lbn| zoned.zone(first).expect("the zone").condition;
    for first in some {
        zoned.manage(*first, ZoneAction::Open).await.expect("open");
    }
    let too_many = ZoneProblem::TooManyOpen { most: limits.open };
    let limits_are_equal = limits.active == Some(limits.open);
    if !limits_are_equal {
        assert_eq!(refusal(zoned.manage(another, ZoneAction::Open).await), too_many);
        assert_eq!(refusal(device.write(another, filled(unit, 6)).await), too_many);
    }
    for first in some {
        zoned.manage(*first, ZoneAction::Close).await.expect("close");
        device.write(*first, filled(unit, 7)).await.expect("opened by a write");
        assert_eq!(condition(*first), ZoneCondition::ImplicitlyOpen);
    }
    if !limits_are_equal {
        device.write(another, filled(unit, 8)).await.expect("the oldest is closed for it");
        let oldest = *some.first().expect("a zone may be open");
        assert_eq!(condition(oldest), ZoneCondition::Closed);
    }
    if let Some(most) = limits.active {
        let begun = firsts.iter().filter(|first| condition(**first).is_active()).count();
        let more = most as usize - begun;
        let empty: Vec<Lbn> = firsts
            .iter()
            .filter(|first| condition(**first) == ZoneCondition::Empty)
            .copied()
            .collect();
        let (can, cannot) = empty.split_at_checked(more).expect("more zones than may be active");
        for first in can {
            device.write(*first, filled(unit, 9)).await.expect("a place for it");
        }
        let first = *cannot.first().expect("more zones than may be active");
        let refused = device.write(first, filled(unit, 9)).await;
        assert_eq!(refusal(refused), ZoneProblem::TooManyActive { most });
    }
    for first in firsts {
        zoned.manage(*first, ZoneAction::Reset).await.expect("reset");
        assert_eq!(condition(*first), ZoneCondition::Empty);
    }
}

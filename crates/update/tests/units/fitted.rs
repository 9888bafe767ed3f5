//! Blocks whose units are as long as their contents need: what they take on the device, and what reads of one unit read.

use moirai_update::ExtentUse;

use super::*;

/// Device blocks of the pairs' extents.
async fn pairs_blocks(engine: &Engine) -> u64 {
    let used = engine.map().await;
    let of_pairs = used.iter().filter(|one| one.used_for == ExtentUse::Blocks(PAIRS));
    of_pairs.map(|one| one.blocks.count.0).sum()
}

#[test]
fn partitions_take_as_much_as_their_contents_need() {
    block_on_virtual(1, async {
        const COUNT: u64 = 3000;
        let devices = Devices::formatted(20_000, 2000).await;
        let formats = Formats::of(WholeBlocks).with(FittedPairs);
        let open = async || devices.open_with(formats.clone(), uncached()).await.unwrap();
        let mut engine = open().await;
        engine.create_space_of(PAIRS, &fitted_format(32)).await.unwrap();
        let mut model: Model = (0..COUNT).map(|key| (key, (key, 1000 + key))).collect();
        let mut group = Group::new();
        model.iter().for_each(|(key, pair)| change(&mut group, *key, PUT, &bytes_of(*pair)));
        engine.commit(&group).await.unwrap();
        engine.checkpoint().await.unwrap();
        let view = engine.now().view(PAIRS, At::Key(&[]), 64).await.unwrap().unwrap();
        let lengths: Vec<[usize; 2]> = view
            .blocks()
            .map(|(_, block)| [A, B].map(|unit| block.unit(unit).unwrap().len()))
            .collect();
        // All of a partition have the same, which is shorter than the longest that there may be.
        assert!(lengths.len() > 4 && lengths.windows(2).all(|pair| pair[0] == pair[1]));
        let block_bytes: usize = lengths[0].iter().sum();
        assert!(block_bytes < FITTED_BLOCK, "{lengths:?}");

        let mut read = Vec::new();
        for units in [UnitSet::ALL, UnitSet::one(A), UnitSet::one(B)] {
            devices.metered.take();
            let records = scanned(engine.now().units(units), PAIRS).await.unwrap();
            assert_eq!(records, expected(&model, units));
            read.push(devices.metered.take().read_blocks.0);
        }
        let [all, a, b] = read[..] else { panic!() };
        assert_eq!(all, a + b, "each unit is read by itself, and nothing else");
        // Beside the blocks there are their tables.
        let taken = pairs_blocks(&engine).await;
        assert!(all < taken && taken < all + all / 8, "{taken} for {all}");

        // Shapes come from a checkpoint, and from the log.
        engine.close().await.unwrap();
        engine = open().await;
        assert_eq!(scanned(engine.now(), PAIRS).await.unwrap(), expected(&model, UnitSet::ALL));
        let mut group = Group::new();
        for key in (0..COUNT).filter(|key| key % 3 > 0) {
            change(&mut group, key, DELETE, &[]);
            model.remove(&key);
        }
        engine.commit(&group).await.unwrap();
        engine.checkpoint().await.unwrap();
        let mut group = Group::new();
        change(&mut group, 0, SET_B, &7_u64.to_le_bytes());
        model.insert(0, (0, 7));
        engine.commit(&group).await.unwrap();
        drop(engine);
        let engine = open().await;
        for units in [UnitSet::ALL, UnitSet::one(A), UnitSet::one(B)] {
            let records = scanned(engine.now().units(units), PAIRS).await.unwrap();
            assert_eq!(records, expected(&model, units));
        }
        assert!(engine.check().await.is_empty());
    });
}

//! Profiles of devices that were kept.
#![no_main]

use libfuzzer_sys::fuzz_target;
use moirai::Kept;
use moirai::units::Lbn;

fuzz_target!(|text: &str| {
    // The checksum keeps out nearly all that is not as it was written; what lies behind it is looked at, too.
    for kept in [Kept::parse(text), Kept::parse_body(text)].into_iter().flatten() {
        assert_eq!(Kept::parse(&kept.text()), Ok(kept.clone()));
        let map = kept.map();
        let mut at = Lbn(0);
        for _ in 0..1000 {
            let Some(track) = map.track(at) else { break };
            assert!(track.blocks.contains(at) && track.blocks.end() > at);
            at = track.blocks.end();
        }
    }
});

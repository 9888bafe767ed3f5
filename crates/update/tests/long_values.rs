//! Long values through the engine's own door: what a group refuses.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::block_on_virtual;
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{
    Engine, Error, Format, Formats, KindNumber, Kinds, Modification, Options, SpaceId, WholeBlocks,
    WrittenValue,
};

const SPACE: SpaceId = SpaceId(1);

async fn engine() -> Engine {
    let power = Power::on();
    let device = |name: &str| {
        FaultyDevice::new(name.into(), BlockCount(60_000), BlockCount(1), Arc::clone(&power))
    };
    let (data, log) = (device("data"), device("log"));
    let logs = [log as _];
    let format = Format { block_bytes: ByteCount(4096), ..Format::default() };
    Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
    let engine =
        Engine::open(data, &logs, Kinds::new(), Formats::of(WholeBlocks), Options::default());
    let engine = engine.await.unwrap();
    engine.create_space(SPACE).await.unwrap();
    engine
}

/// Blocks of whole values take none that are longer.
#[test]
fn formats_without_long_values_refuse_them() {
    block_on_virtual(1, async {
        let engine = engine().await;
        let mut writer = engine.value_writer(SPACE).unwrap();
        let refused = writer.write(&[0; 5000]).await.unwrap_err();
        assert!(matches!(refused, Error::TooLong { what: "value", have: 5000, most: 4096 }));
        let put = Modification { key: b"k", kind: moirai_update::PUT, bytes: &[0; 5000] };
        let refused = engine.modify(SPACE, put).await.unwrap_err();
        assert!(matches!(refused, Error::TooLong { what: "value", .. }));
        let mut writer = engine.value_writer(SPACE).unwrap();
        writer.write(&[0; 4096]).await.unwrap();
        assert!(
            matches!(writer.finish().await.unwrap(), WrittenValue::Short(value) if value.len() == 4096)
        );
    });
}

/// A program cannot make up a reference.
#[test]
fn the_kind_of_long_puts_is_the_engines() {
    block_on_virtual(1, async {
        let engine = engine().await;
        let put = Modification { key: b"k", kind: KindNumber(3), bytes: &[0; 8] };
        let refused = engine.modify(SPACE, put).await.unwrap_err();
        assert!(matches!(refused, Error::UnknownKind { number: KindNumber(3) }));
    });
}

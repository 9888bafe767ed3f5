//! What was encoded comes back, whatever it is; and any bytes are an error or values, never a panic.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use moirai_encodings::{Encoder, Number, NumberType, Numbers, Texts, Validity};
use proptest::prelude::*;

/// Numbers as columns have them: few bits, few distinct, runs, sequences, anything.
fn numbers() -> impl Strategy<Value = Vec<i128>> {
    let base = prop_oneof![Just(0i128), any::<i64>().prop_map(i128::from)];
    let rows = 0..600usize;
    prop_oneof![
        (base.clone(), 0..64u32, rows.clone()).prop_flat_map(|(base, bits, rows)| {
            prop::collection::vec(0..1i128 << bits, rows)
                .prop_map(move |numbers| numbers.iter().map(|number| base + number).collect())
        }),
        (
            prop::collection::vec(any::<i64>(), 1..20),
            prop::collection::vec(any::<u8>(), rows.clone())
        )
            .prop_map(|(of, which)| {
                which.iter().map(|index| i128::from(of[usize::from(*index) % of.len()])).collect()
            }),
        prop::collection::vec((any::<i64>(), 1..60usize), 0..20).prop_map(|runs| {
            runs.iter().flat_map(|(value, count)| vec![i128::from(*value); *count]).collect()
        }),
        (any::<i64>(), any::<i32>(), rows.clone()).prop_map(|(base, step, rows)| {
            (0..rows as i128).map(|row| i128::from(base) + row * i128::from(step)).collect()
        }),
        prop::collection::vec(any::<i128>(), rows),
    ]
}

/// Each of them with a bit, or none.
fn validity(rows: usize) -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        Just(None),
        Just(Some(vec![255; rows.div_ceil(8)])),
        prop::collection::vec(any::<u8>(), rows.div_ceil(8)).prop_map(Some),
    ]
}

fn check<T: Number + PartialEq + std::fmt::Debug>(
    values: &[u8],
    expected: &[T],
    of: NumberType,
    validity: Option<&[u8]>,
) {
    let mut bytes = Vec::new();
    let validity = validity.map(Validity::new);
    Encoder::new().numbers(values, of, validity, &mut bytes);
    let is_valid = |row: usize| validity.is_none_or(|validity| validity.is_valid(row));
    // Behind the last byte there may be anything.
    bytes.push(0xa5);
    let numbers = Numbers::parse(&bytes).unwrap();
    assert_eq!(numbers.rows(), expected.len());
    let mut decoded: Vec<T> = Vec::new();
    numbers.decode(&mut decoded).unwrap();
    assert_eq!(decoded.len(), expected.len());
    for (row, expected) in expected.iter().enumerate() {
        let read = numbers.validity().is_none_or(|validity| validity.is_valid(row));
        assert_eq!(read, is_valid(row), "row {row}");
        if read {
            assert_eq!(decoded[row], *expected, "row {row}");
        }
        assert_eq!(numbers.get::<T>(row).unwrap(), Some(decoded[row]), "row {row}");
    }
    assert_eq!(numbers.get::<T>(expected.len()).unwrap(), None);
    for end in 0..bytes.len().min(200) {
        let _ = Numbers::parse(&bytes[..end]).map(|numbers| numbers.decode::<T>(&mut Vec::new()));
    }
}

proptest! {
    #[test]
    fn numbers_come_back(
        (numbers, validity) in numbers().prop_flat_map(|numbers| {
            let validity = validity(numbers.len());
            (Just(numbers), validity)
        }),
        is_signed: bool,
    ) {
        let validity = validity.as_deref();
        macro_rules! of_width {
            ($unsigned:ty, $width:literal) => {{
                let expected: Vec<$unsigned> = numbers.iter().map(|number| *number as $unsigned).collect();
                let values: Vec<u8> = expected.iter().flat_map(|number| number.to_le_bytes()).collect();
                check(&values, &expected, NumberType { width_bytes: $width, is_signed }, validity);
            }};
        }
        of_width!(u8, 1);
        of_width!(u16, 2);
        of_width!(u32, 4);
        of_width!(u64, 8);
        let values: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        check(&values, &numbers, NumberType { width_bytes: 16, is_signed: true }, validity);
    }

    #[test]
    fn texts_come_back(
        (texts, validity) in prop_oneof![
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..300),
            (prop::collection::vec("[a-z ]{0,12}", 1..20), prop::collection::vec(any::<u8>(), 0..300))
                .prop_map(|(of, which)| which.iter()
                    .map(|index| of[usize::from(*index) % of.len()].clone().into_bytes()).collect()),
            prop::collection::vec("(the|quick|brown|fox| ){0,30}".prop_map(String::into_bytes), 0..300),
        ].prop_flat_map(|texts: Vec<Vec<u8>>| {
            let validity = validity(texts.len());
            (Just(texts), validity)
        }),
    ) {
        let ends: Vec<u32> = texts.iter().scan(0, |end, text| {
            *end += text.len() as u32;
            Some(*end)
        }).collect();
        let mut bytes = Vec::new();
        let validity = validity.as_deref().map(Validity::new);
        Encoder::new().texts(&ends, &texts.concat(), validity, &mut bytes);
        bytes.push(0xa5);
        let read = Texts::parse(&bytes).unwrap();
        let mut ranges = Vec::new();
        read.ranges(&mut ranges).unwrap();
        assert_eq!((read.rows(), ranges.len()), (texts.len(), texts.len()));
        for (row, text) in texts.iter().enumerate() {
            let is_valid = |validity: Option<Validity<'_>>| validity.is_none_or(|bits| bits.is_valid(row));
            assert_eq!(is_valid(read.validity()), is_valid(validity));
            assert_eq!(read.get(row).unwrap(), Some(&text[..]));
            let range = ranges[row].start as usize..ranges[row].end as usize;
            assert_eq!(read.range(row).unwrap(), Some(range));
        }
        assert_eq!(read.get(texts.len()).unwrap(), None);
        for end in 0..bytes.len().min(200) {
            let _ = Texts::parse(&bytes[..end]).map(|texts| texts.ranges(&mut Vec::new()));
        }
    }

    #[test]
    fn any_bytes_are_values_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..400), encoding in 0..9u8) {
        if let [first, flags, _, _, _, rows @ ..] = &mut bytes[..] {
            (*first, *flags) = (encoding, *flags % 3);
            rows.iter_mut().take(2).for_each(|byte| *byte = 0);
        }
        if let Ok(numbers) = Numbers::parse(&bytes) {
            let _ = numbers.decode::<u64>(&mut Vec::new());
            let _ = numbers.decode::<i128>(&mut Vec::new());
            let _ = numbers.get::<u64>(numbers.rows() / 2);
        }
        if let Ok(texts) = Texts::parse(&bytes) {
            let _ = texts.ranges(&mut Vec::new());
            let _ = texts.get(texts.rows() / 2);
        }
    }
}

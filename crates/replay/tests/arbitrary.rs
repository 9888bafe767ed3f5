//! Whatever the bytes, a reader gives requests or an error, and what DiskSim's format can say is
//! read back as it was written.

use std::io::{self, BufRead, BufReader, Read};

use moirai_replay::trace::{
    Arrival, Format, MeasuredReader, TraceError, TraceReader, TraceRequest,
};
use moirai_storage::Op;
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Instant, Lbn};
use proptest::prelude::*;

/// Reads `bytes` in every format, with a small buffer; panics only on what no reader may give.
fn read_in_every_format(bytes: &[u8], buffer_bytes: usize) {
    let reader = || BufReader::with_capacity(buffer_bytes, bytes);
    let lines = reader().split(b'\n').count();
    for format in Format::ALL {
        let read: Vec<_> = TraceReader::new("t", reader(), format).collect();
        assert!(read.len() <= lines, "{format}: {read:?}");
        let failed = read.iter().position(Result::is_err);
        assert!(failed.is_none_or(|index| index + 1 == read.len()), "{format}: {read:?}");
        for request in read.iter().flatten() {
            assert!(!request.blocks.is_empty(), "{format}: {request:?}");
            assert!(request.blocks.end().0 <= u64::MAX / BLOCK_BYTES, "{format}: {request:?}");
        }
    }
    MeasuredReader::new("t", reader()).for_each(drop);
    let _ = Format::detect("t", bytes);
}

/// Pieces that lines are made of, and some that they should not be.
const PIECES: [&str; 42] = [
    " ",
    "\t",
    ",",
    "\n",
    "\r\n",
    "#",
    ".",
    "+",
    "-",
    "0",
    "1",
    "512",
    "4096",
    "3.25",
    "1e3",
    "18446744073709551615",
    "18446744073709551616",
    "36028797018963967",
    "99999999999999999999999",
    "128166372003061629",
    "R",
    "W",
    "r",
    "Hit",
    "Miss",
    "Doub",
    "Read",
    "Write",
    "8,0",
    "Q",
    "D",
    "WS",
    "[",
    "[x]",
    "fio version 2 iolog\n",
    "fio version 3 iolog\n",
    "add",
    "wait",
    "/f",
    "CPU",
    "Timestamp",
    "\u{0}",
];

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, buffer_bytes in 1usize..64) {
        read_in_every_format(&bytes, buffer_bytes);
    }

    #[test]
    fn arbitrary_words_never_panic(
        pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..60),
        buffer_bytes in 1usize..64,
    ) {
        read_in_every_format(pieces.concat().as_bytes(), buffer_bytes);
        read_in_every_format(pieces.join(" ").as_bytes(), buffer_bytes);
        read_in_every_format(pieces.join(",").as_bytes(), buffer_bytes);
    }

    #[test]
    fn disksim_lines_are_read_back(
        rows in proptest::collection::vec(
            (0u64..1 << 40, any::<u32>(), any::<bool>(), 0u64..1 << 54, 1u64..1 << 54),
            0..20,
        ),
        buffer_bytes in 1usize..200,
    ) {
        let mut at = Instant::ZERO;
        let requests: Vec<_> = rows
            .into_iter()
            .zip(1..)
            .map(|((gap_ns, device, is_read, first, count), line)| {
                at.ns += gap_ns;
                let op = if is_read { Op::Read } else { Op::Write };
                let blocks = BlockRange::new(Lbn(first), BlockCount(count));
                TraceRequest { line, ..TraceRequest::new(Arrival::At(at), device, op, blocks) }
            })
            .collect();
        let text: String = requests.iter().map(disksim_line).collect();
        let reader = BufReader::with_capacity(buffer_bytes, text.as_bytes());
        let read: Result<Vec<_>, TraceError> =
            TraceReader::new("t", reader, Format::DiskSim).collect();
        prop_assert_eq!(read.unwrap(), requests);
    }
}

fn disksim_line(request: &TraceRequest) -> String {
    let TraceRequest { at: Arrival::At(at), device, op, blocks, .. } = *request else {
        panic!("{request:?} has no time");
    };
    let (ms, ns) = (at.ns / 1_000_000, at.ns % 1_000_000);
    let flags = u8::from(op == Op::Read);
    format!("{ms}.{ns:06} {device} {} {} {flags}\n", blocks.first.0, blocks.count.0)
}

/// A file that cannot be read on.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the cable is out"))
    }
}

#[test]
fn a_failed_read_is_an_error_and_the_end() {
    let reader = BufReader::new(b"1 0 7 8 1\n2 0".chain(Broken));
    let read: Vec<_> = TraceReader::new("t", reader, Format::DiskSim).collect();
    assert_eq!(read.len(), 2);
    let error = read[1].as_ref().unwrap_err().to_string();
    assert_eq!(error, "t, line 2: read failed: the cable is out");
}

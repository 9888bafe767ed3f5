//! Good and bad lines of every format, what is read of them, and what the errors say.

use moirai_replay::trace::{
    Arrival, BufferAction, Format, MeasuredReader, TraceReader, TraceRequest,
};
use moirai_storage::Op;
use moirai_units::Nanos;

fn shown(request: TraceRequest) -> String {
    let at = match request.at {
        Arrival::At(at) => format!("at {at}"),
        Arrival::After(delay) => format!("after {} ns", delay.0),
    };
    let op = if request.op == Op::Read { 'R' } else { 'W' };
    let blocks = request.blocks;
    format!("{at}: {op} {}+{} of {}", blocks.first.0, blocks.count.0, request.device)
}

/// Reads `text`: requests as `shown`, and at the end the error, if there is one.
fn check(format: Format, text: &str, expected: &[&str]) {
    let read: Vec<String> = TraceReader::new("t", text.as_bytes(), format)
        .map(|request| request.map_or_else(|error| error.to_string(), shown))
        .collect();
    assert_eq!(read, expected, "{format}: {text}");
}

/// Reads `text`, whose line `line_number` is bad: the error says so, and begins with `problem`.
fn check_bad(format: Format, text: &str, line_number: usize, problem: &str) {
    let error = TraceReader::new("t", text.as_bytes(), format).find_map(Result::err);
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    let expected = format!("t, line {line_number}, {problem}");
    assert!(error.starts_with(&expected), "{format}: {text}\n{error}\n{expected}");
}

#[test]
fn disksim() {
    let check = |text: &str, expected: &[&str]| check(Format::DiskSim, text, expected);
    check("13.191135\t30\t0\t5\t1\n", &["at 13191135 ns: R 0+5 of 30"]);
    check("# a comment\n\n 0 0 7 8 0\r\n", &["at 0 ns: W 7+8 of 0"]);
    check("0.0 0 7 8 1a\n0.0 0 7 8 0x1B", &["at 0 ns: W 7+8 of 0", "at 0 ns: R 7+8 of 0"]);
    check("", &[]);

    let sectors = "a whole number from 1 to 36028797018963960";
    let bad = |text, problem: &str| check_bad(Format::DiskSim, text, 1, problem);
    bad("1 0 7 -3 1", &format!("column `bcount`: `-3` is not {sectors}"));
    bad("1 0 7 0 1", &format!("column `bcount`: `0` is not {sectors}"));
    bad("1 0 7", &format!("column `bcount` is missing; expected {sectors}"));
    bad("1 0 7 8", "column `flags` is missing; expected a hexadecimal number");
    bad("1 0 7 8 x", "column `flags`: `x` is not a hexadecimal number");
    bad("1 0 7 8 1 9", "`9` follows the last column: check the format");
    bad("1 4294967296 7 8 1", "column `devno`: `4294967296` is not a whole number from 0 to");
    bad("1 0 36028797018963960 8 1", "column `bcount`: `8` is not a whole number from 1 to 7");
    bad(
        "1 0 99999999999999999999 2 1",
        "column `blkno`: `99999999999999999999` is not a whole number from 0 to",
    );
    let time = "is not a time in ms such as 12.5, below 292 years";
    bad("1e3 0 7 8 1", &format!("column `time_ms`: `1e3` {time}"));
    bad("-1 0 7 8 1", &format!("column `time_ms`: `-1` {time}"));
    bad("9223372036855 0 7 8 1", &format!("column `time_ms`: `9223372036855` {time}"));
    bad("\u{1}\u{ff} 0", &format!("column `time_ms`: `\\x01\\xc3\\xbf` {time}"));
}

#[test]
fn traces_in_order_end_where_time_goes_back() {
    check(
        Format::DiskSim,
        "2.5 0 7 8 1\n1 0 7 8 1\n3 0 7 8 1",
        &[
            "at 2500000 ns: R 7+8 of 0",
            "t, line 2, column `time_ms`: 1 ms is before 2.5 ms, \
             the time of the previous line",
        ],
    );
}

#[test]
fn disksim_validate() {
    let check = |text: &str, expected: &[&str]| check(Format::DiskSimValidate, text, expected);
    // The delay on a line is that after its request.
    check(
        "R Hit 3962268 12 6657.00000 64047.00000\nW Miss 5 4 0.5 20296.786638\nR Trip 0 1 7 9\n",
        &[
            "after 0 ns: R 3962268+12 of 0",
            "after 64047000 ns: W 5+4 of 0",
            "after 20296787 ns: R 0+1 of 0",
        ],
    );
    let bad = |text, problem: &str| check_bad(Format::DiskSimValidate, text, 1, problem);
    bad("r Hit 5 4 1 1", "column `rw`: `r` is not `R` or `W`");
    bad("R Hot 5 4 1 1", "column `buffer`: `Hot` is not `Hit`, `Miss`, `Doub` or `Trip`");
    bad("R Hit 5 4 1", "column `delay_us` is missing; expected a time in us");
}

#[test]
fn measured_requests_have_their_times() {
    let text = "R Hit 10 2 14901.5 4757.708232\nW Doub 12 1 704.0 1\n";
    let read: Vec<_> =
        MeasuredReader::new("t", text.as_bytes()).map(|request| request.unwrap()).collect();
    assert_eq!(read.len(), 2);
    assert_eq!((read[0].buffer, read[1].buffer), (BufferAction::Hit, BufferAction::Doub));
    assert_eq!((read[0].measured, read[1].measured), (Nanos(14_901_500), Nanos(704_000)));
    assert_eq!((read[0].delay, read[1].delay), (Nanos::ZERO, Nanos(4_757_708)));
}

#[test]
fn spc() {
    let check = |text: &str, expected: &[&str]| check(Format::Spc, text, expected);
    check("0,20941264,8192,W,0.551706\n", &["at 551706000 ns: W 20941264+16 of 0"]);
    check(" 1, 5, 513, r , 2.5 , 7, more\r\n", &["at 2500000000 ns: R 5+2 of 1"]);
    check("0,5,1,R,2\n0,5,1,R,1\n", &["at 2000000000 ns: R 5+1 of 0"; 2]);
    let bad = |text, problem: &str| check_bad(Format::Spc, text, 1, problem);
    bad("0,5,0,R,2", "column `size`: `0` is not a whole number from 1 to");
    bad("0,5,512,X,2", "column `opcode`: `X` is not `R` or `W`");
    bad("0,,512,R,2", "column `lba`: `` is not a whole number from 0 to 36028797018963966");
    bad("0 5 512 R 2", "column `asu`: `0 5 512 R 2` is not a whole number");
    bad("0,5,512,R", "column `timestamp` is missing; expected a time in s");
}

#[test]
fn ssdsim() {
    let line = "26214000 1 240840 6 0";
    check(Format::SsdSim, line, &["at 26214000 ns: W 240840+6 of 1"]);
    check(Format::SsdSimMicroseconds, line, &["at 26214000000 ns: W 240840+6 of 1"]);
    let check = |text: &str, expected: &[&str]| check(Format::SsdSim, text, expected);
    // Time is held; what is neither read nor write is skipped.
    check("9 0 1 2 1\n8 0 1 2 2\n7 0 3 2 1", &["at 9 ns: R 1+2 of 0", "at 9 ns: R 3+2 of 0"]);
    let bad = |text, problem: &str| check_bad(Format::SsdSim, text, 1, problem);
    bad("9 0 1 2 W", "column `op`: `W` is not a whole number from 0 to 9");
    bad("9 0 1 2", "column `op` is missing; expected a whole number from 0 to 9");
    bad("9.5 0 1 2 1", "column `time_ns`: `9.5` is not a whole number from 0 to");
    bad("9 0 1 2 1 1", "`1` follows the last column: check the format");
}

#[test]
fn msr() {
    let check = |text: &str, expected: &[&str]| check(Format::MsrCsv, text, expected);
    // The third is out of order, and touches two blocks.
    check(
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
         128166372003061629,hm,0,Read,7014912,4096,26\n\
         128166372016382155,hm,1,Write,1074696192,512,113\n\
         128166372010000000,hm,0,read,511,2,1\n",
        &[
            "at 0 ns: R 13701+8 of 0",
            "at 1332052600 ns: W 2099016+1 of 1",
            "at 1332052600 ns: R 0+2 of 0",
        ],
    );
    let bad = |text, problem: &str| check_bad(Format::MsrCsv, text, 1, problem);
    bad("1,hm,0,Trim,0,512,1", "column `Type`: `Trim` is not `Read` or `Write`");
    bad("1,,0,Read,0,512,1", "column `Hostname`: `` is not the name of a server");
    bad("1,hm,0,Read,0,0,1", "column `Size`: `0` is not a whole number from 1 to");
    bad("1,hm,0,Read,0,512", "column `ResponseTime` is missing; expected");
    bad("1,hm,0,Read,0,512,1,1", "`1` follows the last column: check the format");
    let text = "0,hm,0,Read,0,512,1\n18446744073709551615,hm,0,Read,0,512,1";
    let problem = "column `Timestamp`: `18446744073709551615` is not a whole number from 0 to";
    check_bad(Format::MsrCsv, text, 2, problem);
}

#[test]
fn blkparse() {
    let check = |text: &str, expected: &[&str]| check(Format::BlkParse, text, expected);
    // Dispatches are replayed, since one came first; the rest is skipped: other actions, a message,
    // flushes old and new, a discard, a packet command, the summary.
    check(
        "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n\
         \x20 8,0    3        2     0.000000829   697  D   W 223490 + 8 [kjournald]\n\
         \x20 8,0    3        3     0.000001000   697  Q   R 1 + 8 [two words]\n\
         \x20 8,0    3        0     0.000001100     0  m   N cfq697S / alloced\n\
         \x20 8,0    3        4     0.000001200   697  D FWS [kjournald]\n\
         \x20 8,0    3        5     0.000001200   697  D  WS 0 + 0 [kjournald]\n\
         \x20 8,0    3        6     0.000001200   697  D   D 64 + 64 [fstrim]\n\
         \x20 8,0    3        7     0.000001200   697  D   R 36 (12 00 00) [udev]\n\
         259,1    0        8     0.500000000     0  D RSM 16 + 32 [swapper/0]\n\
         \x20 8,0    3        9     0.400000000   697  D WFS 24 + 8 (    12) [x]\n\
         CPU0 (8,0):\n Reads Queued:           1,        0KiB\n",
        &[
            "at 829 ns: W 223490+8 of 0",
            "at 500000000 ns: R 16+32 of 1",
            "at 500000000 ns: W 24+8 of 0",
        ],
    );
    check(
        "8,0 0 1 0.1 1 Q N [x]\n8,0 0 1 0.1 1 D R 1 + 2 [x]\n8,0 0 1 0.2 1 Q R 1 + 2 [x]",
        &["at 200000000 ns: R 1+2 of 0"],
    );
    let bad = |text, problem: &str| check_bad(Format::BlkParse, text, 1, problem);
    bad("CPU0 (8,0):", "column `dev`: `CPU0` is not `major,minor` of a device");
    bad("8, 0 1 0.1 1 Q R 1 + 2 [x]", "column `dev`: `8,` is not `major,minor` of a device");
    bad(
        "8,0 0 1 0.1 1 Q X 1 + 2 [x]",
        "column `rwbs`: `X` is not letters, with `R`, `W`, `D` or `N`",
    );
    bad("8,0 0 1 0.1 1 Q", "column `rwbs` is missing; expected letters, with `R`, ");
    bad("8,0 0 1 0.1 1 Q R", "column `sector` is missing; expected a whole number");
    bad("8,0 0 1 0.1 1 Q R 1 2", "column `+`: `2` is not `+`");
    bad("8,0 0 1 0.1 1 Q R 1 + -2", "column `sectors`: `-2` is not a whole number from 1 to");
}

#[test]
fn fio_version_2() {
    let check = |text: &str, expected: &[&str]| check(Format::FioIolog, text, expected);
    check(
        "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sdb add\n\
         /dev/sdb read 1024 4096\n/dev/sda wait 150 0\n/dev/sda write 0 512\n/dev/sda sync 0 0\n\
         /dev/sda wait 50\n/dev/sda trim 0 512\n/dev/sda read 0 512\n/dev/sda close\n",
        &["at 0 ns: R 2+8 of 1", "at 150000 ns: W 0+1 of 0", "at 200000 ns: R 0+1 of 0"],
    );
    let bad = |line, problem: &str| {
        check_bad(Format::FioIolog, &format!("fio version 2 iolog\n{line}"), 2, problem);
    };
    bad("/f read 1 512", "column `offset`: `1` is not a multiple of 512 from 0 to");
    bad("/f read 0 0", "column `length`: `0` is not a multiple of 512 from 512 to");
    bad("/f read 0", "column `length` is missing; expected");
    bad("/f seek 0 0", "column `action`: `seek` is not one of add, open, close, ");
    bad("/f", "column `action` is missing; expected one of add, ");
    bad("/f add 1", "`1` follows the last column: check the format");
}

#[test]
fn fio_version_3() {
    let check = |text: &str, expected: &[&str]| check(Format::FioIolog, text, expected);
    check(
        "fio version 3 iolog\n2 nvme add\n872 nvme open\n878 nvme write 0 16384\n\
         888 nvme sync 0 0\n891 nvme read 512 512\n10001677 nvme close\n",
        &["at 878000 ns: W 0+32 of 0", "at 891000 ns: R 1+1 of 0"],
    );
    let bad = |line, problem: &str| {
        let text = format!("fio version 3 iolog\n5 f add\n{line}");
        check_bad(Format::FioIolog, &text, 3, problem);
    };
    bad("4 f open", "column `timestamp_us`: 4 us is before 5 us, the time of the previous line");
    bad("5 f wait 100", "column `action`: `wait` is not one of add, open, close, ");
    check(
        "fio version 1 iolog",
        &[
            "t, line 1, column `header`: `fio version 1 iolog` is not `fio version 2 iolog` or `fio version 3 iolog`",
        ],
    );
    let many: String = (0..2000).map(|file| format!("f{file} add\n")).collect();
    let text = format!("fio version 2 iolog\n{many}");
    let problem = "column `filename`: the trace names more than 1024 devices";
    check_bad(Format::FioIolog, &text, 1026, problem);
}

#[test]
fn formats_are_found_by_their_first_lines() {
    let check = |head: &str, expected: Option<Format>| {
        assert_eq!(Format::detect("t", head.as_bytes()).ok(), expected, "{head}");
    };
    check("13.191135 30 0 5 1\n17.829285 20 57", Some(Format::DiskSim));
    check("13.191135 30 0 5 1", Some(Format::DiskSim));
    check("R Hit 5 4 1.0 1.0\n", Some(Format::DiskSimValidate));
    check("0,20941264,8192,W,0.551706\n0,20", Some(Format::Spc));
    check("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n", Some(Format::MsrCsv));
    check("128166372003061629,hm,0,Read,7014912,4096,26\n", Some(Format::MsrCsv));
    check(
        "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [x]\n",
        Some(Format::BlkParse),
    );
    check("fio version 3 iolog\n", Some(Format::FioIolog));
    // `ssdsim` in either unit, or `disksim`.
    check("26214000 1 240840 6 0\n", Some(Format::SsdSim));
    check("", None);
    check("# nothing but a comment\n", None);
    check("Total nonsense\n", None);
    check(&"x".repeat(100_000), None);
}

#[test]
fn a_trace_of_no_format_is_told_what_comes_closest() {
    let check = |head: &str, expected: &str| {
        let error = Format::detect("t", head.as_bytes()).unwrap_err().to_string();
        let names = Format::ALL.map(Format::name).join(", ");
        assert_eq!(error, expected.replace("ALL", &names), "{head}");
    };
    let unknown = "t: the first lines fit no known format; give the format with --format: ALL";
    let closest = |end: &str| format!("{unknown}{end}");
    let count = "a whole number from 1 to 36028797018963962";
    let value = format!("column `bcount`: `-5` is not {count}");
    check(
        "# c\n1.5 0 5 8 1\n2.0 0 5 -5 1\n",
        &closest(&format!(". The closest format is disksim: line 3, {value}")),
    );
    check("1.5 0 5 -5 1\n", &closest(&format!(". The closest format is disksim: line 1, {value}")));
    check(
        "1 0 5 8 1\n2 0 5 -5 1\n",
        &closest(&format!(
            ". The closest format is ssdsim: line 2, column `sectors`: `-5` is not {count}"
        )),
    );
    check(
        "0,5,512,R,1\n0,5,512,R\n",
        &closest(
            ". The closest format is spc: line 2, column `timestamp` is missing; expected a \
             time in s such as 12.5, below 292 years",
        ),
    );
    check(
        "1.5 0 5 8 1\n1.25 0 5 8 1\n",
        &closest(
            ". The closest format is disksim: line 2, column `time_ms`: 1.25 ms is before 1.5 ms, the time \
             of the previous line",
        ),
    );
    check(
        "1.5 0 5 8 1 7\n",
        &closest(
            ". The closest format is disksim: line 1, `7` follows the last column: check the format",
        ),
    );
    let too_long = "longer than 4096 bytes: decompress the file if it is compressed";
    let long = "x".repeat(5000);
    check(
        &format!("1.5 0 5 8 1\n{long}\n"),
        &closest(&format!(". The closest format is disksim: line 2, {too_long}")),
    );
    check(&long, &closest(&format!(". All formats fail at line 1, {too_long}")));
    check("hello world\n", unknown);
    check("", "t: the file is empty");
    check(
        "# a\n\n",
        "t: the first lines are comments or empty, and show no format; give the format with --format: ALL",
    );
    check(
        "1 0 5 8 7\n",
        "t: the first lines fit several formats; give the right one with --format: disksim, \
         ssdsim, ssdsim-us",
    );
    assert_eq!(Format::detect("t", b"# a\n1.5 0 5 8 1"), Ok(Format::DiskSim));
}

#[test]
fn requests_have_their_lines() {
    let text = b"# a\n9 0 1 2 1\n\n8 0 1 2 2\n7 0 3 2 1";
    let lines: Vec<u64> = TraceReader::new("t", &text[..], Format::SsdSim)
        .map(|request| request.unwrap().line)
        .collect();
    assert_eq!(lines, [2, 5]);
}

#[test]
fn formats_are_read_and_written_by_name() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    assert_eq!(
        "disksin".parse::<Format>().unwrap_err().to_string(),
        "`disksin` is not a trace format: use one of disksim, disksim-validate, spc, ssdsim, \
         ssdsim-us, msr-csv, blkparse, fio-iolog"
    );
}

//! CSV texts beside the schema, the rows or the error that reading them gives.

use std::io::{Cursor, Write};

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use proptest::prelude::*;

use super::*;

/// The columns as `NAME=TYPE`, then the rows, a line each. NULL is `-`.
fn read(text: &[u8], options: &CsvOptions) -> Result<String, String> {
    let input = Input::Stream(Box::new(Cursor::new(text.to_vec())));
    let import = open(Path::new("t.csv"), input, options).map_err(|error| error.to_string())?;
    let column = |field: &std::sync::Arc<datafusion::arrow::datatypes::Field>| {
        let null = if field.is_nullable() { "" } else { " not null" };
        format!("{}={}{null}", field.name(), field.data_type())
    };
    let mut found = vec![import.schema.fields().iter().map(column).collect::<Vec<_>>().join(" ")];
    let mut rows = 0;
    for batch in import.batches {
        let batch = batch.map_err(|error| error.to_string())?;
        assert_eq!(batch.schema(), import.schema);
        rows += batch.num_rows() as u64;
        let format = FormatOptions::new().with_null("-");
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &format).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<_> = columns.iter().map(|c| c.value(row).to_string()).collect();
            found.push(values.join("|"));
        }
    }
    match &options.schema {
        Some(_) => assert_eq!(import.rows, None),
        None => assert_eq!(import.rows, Some(rows)),
    }
    Ok(found.join("\n"))
}

fn with_schema(schema: &str) -> CsvOptions {
    CsvOptions { schema: Some(schema.parse().unwrap()), ..CsvOptions::default() }
}

fn without_header() -> CsvOptions {
    CsvOptions { has_header: false, ..CsvOptions::default() }
}

fn check_with(options: &CsvOptions, text: &str, expected: &[&str]) {
    assert_eq!(read(text.as_bytes(), options), Ok(expected.join("\n")), "{text:?}");
}

fn check(text: &str, expected: &[&str]) {
    check_with(&CsvOptions::default(), text, expected);
}

fn check_error(options: &CsvOptions, text: impl AsRef<[u8]>, expected: &str) {
    let text = text.as_ref();
    let expected = Err(format!("t.csv: {expected}"));
    assert_eq!(read(text, options), expected, "{:?}", String::from_utf8_lossy(text));
}

/// The type of a column of these values.
fn type_of(values: &[&str]) -> String {
    let text = format!("a,b\n{}", values.iter().map(|v| format!("{v},\n")).collect::<String>());
    let read = read(text.as_bytes(), &CsvOptions::default()).unwrap();
    read.strip_prefix("a=").unwrap().split(" b=").next().unwrap().to_owned()
}

#[test]
fn columns_get_the_first_type_that_all_values_fit() {
    let check = |values: &[&str], expected: &str| {
        assert_eq!(type_of(values), expected, "{values:?}");
        // A NULL changes no type, wherever it is.
        assert_eq!(type_of(&[&[""], values, &["\"\""]].concat()), expected, "{values:?} and NULL");
        let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
        assert_eq!(type_of(&quoted.iter().map(String::as_str).collect::<Vec<_>>()), expected);
    };
    check(&["1", "-2", "+3", "007", " 4 "], "Int64");
    check(&["9223372036854775807", "-9223372036854775808"], "Int64");
    check(&["9223372036854775808", "1"], "Decimal128(38, 0)");
    check(&["9223372036854775808", "1.5"], "Float64");
    check(&["999999999999999999999999999999999999999"], "Float64");
    check(&["1", "2.5"], "Float64");
    check(&["1e3", ".5", "5.", "-inf", "NaN"], "Float64");
    check(&["1", "1e999"], "Utf8View");
    check(&["1", "x"], "Utf8View");
    check(&["0x10"], "Utf8View");
    check(&["1_000"], "Utf8View");
    check(&["true", "false", " TRUE"], "Boolean");
    check(&["true", "yes"], "Utf8View");
    check(&["true", "1"], "Utf8View");
    check(&["2024-02-29"], "Date32");
    check(&["2023-02-29"], "Utf8View");
    check(&["2024-02-29", "1"], "Utf8View");
    check(&["2024-02-29", "2024-02-29 10:00"], "Timestamp(µs)");
    check(&["2024-02-29T10:00:00Z", "2024-02-29 10:00:00.123456+02:00"], "Timestamp(µs)");
    check(&["2024-02-29 10:00:00.1234567", "2024-02-29"], "Timestamp(ns)");
    check(&["2024-02-29 10:00:00.1234567", "9999-12-31"], "Utf8View");
    check(&["9999-12-31 00:00:00"], "Timestamp(µs)");
    check(&["10:00"], "Utf8View");
    check(&[], "Utf8View");
}

#[test]
fn a_value_in_the_last_of_many_rows_decides_the_type() {
    let text = format!("a\n{}x\n", "1\n".repeat(30_000));
    let read = read(text.as_bytes(), &CsvOptions::default()).unwrap();
    assert!(read.starts_with("a=Utf8View\n1\n") && read.ends_with("\n1\nx"));
    assert_eq!(read.lines().count(), 30_002);
}

#[test]
fn rows_have_the_values_of_the_text() {
    check(
        "id,name,born,weight\n007,\"Ada \"\"Countess\"\"\",1815-12-10,1.5\n8,\"two\nlines\",,\n",
        &[
            "id=Int64 name=Utf8View born=Date32 weight=Float64",
            "7|Ada \"Countess\"|1815-12-10|1.5",
            "8|two\nlines|-|-",
        ],
    );
    check("\u{feff}a,b\r\n true ,FALSE\r\n", &["a=Boolean b=Boolean", "true|false"]);
    check("a\n2024-01-01 00:30+01:00\n", &["a=Timestamp(µs)", "2023-12-31T23:30:00"]);
    check("a\n18446744073709551616\n-5\n", &["a=Decimal128(38, 0)", "18446744073709551616", "-5"]);
}

#[test]
fn header_alone_gives_text_columns_without_rows() {
    check("a,b", &["a=Utf8View b=Utf8View"]);
    check("a,b\n\n\n", &["a=Utf8View b=Utf8View"]);
    check_with(&with_schema("a:int,b:date"), "a,b\n", &["a=Int32 b=Date32"]);
}

#[test]
fn quotes_tell_text_from_null() {
    check("a,b\n,x\n\"\",y\n", &["a=Utf8View b=Utf8View", "-|x", "|y"]);
    check("a,b\n\"\",\"1\"\n\"x\",\"\"\n", &["a=Utf8View b=Int64", "|1", "x|-"]);
    let options = CsvOptions { null: Some("NA".to_owned()), ..CsvOptions::default() };
    let text = "a,b\nNA,1\n\"NA\",NA\n,\"NA\"\nna,\n";
    let expected = ["a=Utf8View b=Int64", "-|1", "NA|-", "-|-", "na|-"];
    check_with(&options, text, &expected);
}

#[test]
fn blank_lines_are_rows_of_a_single_column_only() {
    check("a,b\n\n1,2\n\n", &["a=Int64 b=Int64", "1|2"]);
    check("a\n\n1\n\n2\n", &["a=Int64", "-", "1", "-", "2"]);
    let one = CsvOptions { has_header: false, ..with_schema("a:int") };
    check_with(&one, "\n1\n", &["a=Int32", "-", "1"]);
    check_with(&without_header(), "\n1\n\n", &["column_1=Int64", "1", "-"]);
}

#[test]
fn columns_without_header_are_numbered_or_named_by_the_schema() {
    check_with(&without_header(), "1,x\n2,y", &["column_1=Int64 column_2=Utf8View", "1|x", "2|y"]);
    let both = CsvOptions { has_header: false, ..with_schema("n:smallint,t:text not null") };
    check_with(&both, "1,x\n2,y", &["n=Int16 t=Utf8View not null", "1|x", "2|y"]);
    check_with(&both, "", &["n=Int16 t=Utf8View not null"]);
}

#[test]
fn any_delimiter_splits_fields() {
    for (text, name) in [("a;b\n1,5;2\n", ";"), ("a\tb\n1,5\t2\n", "tab"), ("a|b\n1,5|2\n", "|")] {
        let delimiter: CsvDelimiter = name.parse().unwrap();
        assert_eq!(delimiter.to_string(), name);
        let options = CsvOptions { delimiter, ..CsvOptions::default() };
        check_with(&options, text, &["a=Utf8View b=Int64", "1,5|2"]);
    }
    for text in ["", "ab", "\"", "\n", "\r", "é"] {
        assert!(text.parse::<CsvDelimiter>().is_err(), "{text:?}");
    }
    assert_eq!("\\t".parse(), Ok(CsvDelimiter(b'\t')));
}

#[test]
fn schema_gives_the_types() {
    let schema = "a:tinyint,b:smallint,c:int,d:bigint,e:real,f:double,g:decimal(5,2),h:date,\
                  i:timestamp(0),j:timestamp(3),k:timestamp,l:timestamp(9),m:text";
    let header = "a,b,c,d,e,f,g,h,i,j,k,l,m\n";
    let row = "-128,32767,-1,+5,1.5,2e9,-3.1,2024-01-02,2024-01-02 03:04:05,2024-01-02 03:04:05.678,\
               2024-01-02,2024-01-02T03:04:05.000000007Z,007\n";
    check_with(
        &with_schema(schema),
        &format!("{header}{row},,,,,,,,,,,,\n"),
        &[
            "a=Int8 b=Int16 c=Int32 d=Int64 e=Float32 f=Float64 g=Decimal128(5, 2) h=Date32 \
             i=Timestamp(s) j=Timestamp(ms) k=Timestamp(µs) l=Timestamp(ns) m=Utf8View",
            "-128|32767|-1|5|1.5|2000000000.0|-3.10|2024-01-02|2024-01-02T03:04:05|\
             2024-01-02T03:04:05.678|2024-01-02T00:00:00|2024-01-02T03:04:05.000000007|007",
            "-|-|-|-|-|-|-|-|-|-|-|-|-",
        ],
    );
}

#[test]
fn schema_names_replace_those_of_the_header() {
    check_with(&with_schema("x:int,y:text"), "a,a\n1,2\n", &["x=Int32 y=Utf8View", "1|2"]);
    check_with(&with_schema("x:int,b:text"), ",b\n1,2\n", &["x=Int32 b=Utf8View", "1|2"]);
    check_error(
        &with_schema("a:int,b:int"),
        "b,a\n1,2\n",
        "line 1: `b` is column 1, and the schema has it as column 2 (hint: list the columns in the order of the file)",
    );
}

#[test]
fn schema_of_another_width_is_refused() {
    let expected = "line 1 has 2 fields, and the schema has 1 column";
    check_error(&with_schema("a:int"), "a,b\n1,2\n", expected);
    let options = CsvOptions { has_header: false, ..with_schema("a:int") };
    check_error(&options, "1,2\n", expected);
    let options = CsvOptions { has_header: false, ..with_schema("a:int,b:int,c:int") };
    check_error(&options, "\n1\n", "line 2 has 1 field, and the schema has 3 columns");
}

#[test]
fn misfits_name_line_column_and_value() {
    let check = |csv_type: &str, value: &str, expected: &str| {
        let text = format!("n,age\nx,\n\n\"two\nlines\",\nx,{value}\n");
        let expected = format!("line 6, column `age`: `{value}` is not {expected}");
        check_error(&with_schema(&format!("n:text,age:{csv_type}")), text, &expected);
    };
    check("bigint", "x1", "a bigint, a signed integer of 64 bits");
    check("bigint", "1.0", "a bigint, a signed integer of 64 bits");
    check("tinyint", "128", "a tinyint, an integer from -128 to 127");
    check("smallint", "-32769", "a smallint, an integer from -32768 to 32767");
    check("int", "2147483648", "an integer from -2147483648 to 2147483647");
    check("real", "1e39", "a real, a number such as -1.5 or 2e9");
    check("double", "1e309", "a double, a number such as -1.5 or 2e9");
    check(
        "decimal(4,2)",
        "100.00",
        "a decimal(4,2), a number of up to 2 digits before the point and 2 after it",
    );
    check("date", "01.02.2024", "a date, YYYY-MM-DD");
    check("timestamp(0)", "2024-01-01 00:00:00.5", "a timestamp(0), YYYY-MM-DD HH:MM:SS");
    check("timestamp(3)", "yesterday", "a timestamp(3), YYYY-MM-DD HH:MM:SS.mmm");
    check("timestamp", "24", "a timestamp, YYYY-MM-DD HH:MM:SS.uuuuuu");
    check(
        "timestamp(9)",
        "2300-01-01",
        "a timestamp(9), YYYY-MM-DD HH:MM:SS.nnnnnnnnn, from 1677-09-22 to 2262-04-11",
    );
    check_error(
        &with_schema("a:text not null,b:int not null"),
        "a,b\n\"\",1\nx,\"\"\n",
        "line 3, column `b`: no value, and the schema says `not null`",
    );
    check_error(
        &with_schema("a:text,b:int"),
        "a,b\n\"1\n2\",3\n\"4\n5\",six\n",
        "line 5, column `b`: `six` is not an integer from -2147483648 to 2147483647",
    );
    let long = "é".repeat(61);
    check_error(
        &with_schema("a:int"),
        format!("a\n\"\t{long}\"\n"),
        &format!(
            "line 2, column `a`: `\\t{}...` is not an integer from -2147483648 to 2147483647",
            "é".repeat(59)
        ),
    );
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let expected = "line 3, column `b`: `x\u{fffd}` is not text in UTF-8";
    check_error(&CsvOptions::default(), b"a,b\n1,2\n3,x\xff\n", expected);
    check_error(&CsvOptions::default(), b"a,b\n1,x\n3,x\xff\n", expected);
    check_error(&with_schema("a:int,b:text"), b"a,b\n1,2\n3,x\xff\n", expected);
    check_error(
        &CsvOptions::default(),
        b"\xff\xfea\x00\n",
        "line 1: the name of column 1 is not UTF-8: `\u{fffd}\u{fffd}a\\u{0}`",
    );
}

#[test]
fn wrong_counts_of_fields_name_the_line_and_both_counts() {
    for options in [CsvOptions::default(), with_schema("a:int,b:int")] {
        check_error(&options, "a,b\n1,2\n3\n", "line 3 has 1 field, expected 2");
        check_error(&options, "a,b\n1,2\n\n3,4,5\n", "line 4 has 3 fields, expected 2");
    }
    check_error(&without_header(), "1,2\n3\n", "line 2 has 1 field, expected 2");
}

#[test]
fn unclosed_quotes_name_the_line_they_open_on() {
    for options in [CsvOptions::default(), with_schema("a:text,b:text")] {
        let expected = "line 4: the quote that opens here is not closed";
        check_error(&options, "a,b\n1,\"2\n3\"\n4,\"5\n6,7\n", expected);
        // The quotes before it pair up, so that the last one is open.
        let expected = "line 3: the quote that opens here is not closed";
        check_error(&options, "a,b\n1,\"2\n3\",\"4\n5,6\n", expected);
    }
}

#[test]
fn headers_need_a_name_for_each_column() {
    let options = CsvOptions::default();
    check_error(
        &options,
        "a,b,a\n",
        "line 1: columns 1 and 3 are both named `a` (hint: rename one there or in a schema)",
    );
    check_error(
        &options,
        "\na,,c\n",
        "line 2: column 2 has no name (hint: name it there or in a schema)",
    );
    let wide = ",".repeat(COLUMNS_MAX);
    let expected = "line 1 has 1000 fields, and a table has at most 999 columns";
    check_error(&options, &wide, expected);
    check_error(&without_header(), &wide, expected);
}

#[test]
fn empty_files_are_refused() {
    let no_header = "the file is empty, expected a line of column names";
    for text in ["", "\n\n", "\u{feff}"] {
        check_error(&CsvOptions::default(), text, no_header);
        check_error(&with_schema("a:int,b:int"), text, no_header);
        let expected = "the file is empty, so it has no columns (hint: give a schema)";
        check_error(&without_header(), text, expected);
    }
}

#[test]
fn nothing_follows_an_error() {
    let input = Input::Stream(Box::new(Cursor::new(b"a\n1\nx\n2\n".to_vec())));
    let import = open(Path::new("t.csv"), input, &with_schema("a:int")).unwrap();
    let found: Vec<bool> = import.batches.map(|batch| batch.is_ok()).collect();
    assert_eq!(found, [false]);
}

#[test]
fn long_values_end_batches_early() {
    let text = format!("a\n{}", format!("{}\n", "x".repeat(6 << 20)).repeat(7));
    let input = Input::Stream(Box::new(Cursor::new(text.into_bytes())));
    let import = open(Path::new("t.csv"), input, &CsvOptions::default()).unwrap();
    let rows: Vec<_> = import.batches.map(|batch| batch.unwrap().num_rows()).collect();
    assert_eq!(rows, [3, 3, 1]);
}

#[test]
fn files_and_pipes_read_the_same() {
    let text = "a,b\n1,x\n2,y\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    drop(writer);
    let pipe = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
    for path in [path, pipe] {
        let import = read_csv(&path, &CsvOptions::default()).unwrap();
        assert_eq!(import.rows, Some(2), "{path:?}");
        let rows: usize = import.batches.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 2, "{path:?}");
    }
    let error = |path: &Path| match read_csv(path, &CsvOptions::default()) {
        Ok(_) => panic!("{path:?} was read"),
        Err(error) => error.to_string(),
    };
    assert_eq!(error(folder.path()), format!("{}: is a directory", folder.path().display()));
    assert!(error(Path::new("/none.csv")).starts_with("/none.csv: No such file"));
}

/// Bytes of which few alphabets make much valid CSV text, and the last makes hardly any.
fn csv_bytes() -> impl Strategy<Value = Vec<u8>> {
    let alphabets: [&[u8]; 5] = [
        b"\n1",
        b"\n\r,1.-",
        b"\n\"x",
        b",,,\"\"\n\n\r;0123456789-+.:eTZ \xc3\xa9NAx",
        &std::array::from_fn::<u8, 256, _>(|byte| byte as u8),
    ];
    prop::sample::select(alphabets.map(<[u8]>::to_vec).to_vec())
        .prop_flat_map(|bytes| prop::collection::vec(prop::sample::select(bytes), 0..60))
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_read_or_refused(
        text in csv_bytes(),
        has_header in any::<bool>(),
        delimiter in prop::sample::select(vec![b',', b';', b'0', b'\t']),
        schema in prop::option::of(prop::sample::select(vec![
            "a:int", "a:text", "a:text,b:double", "a:decimal(38,3),b:timestamp(9) not null",
        ])),
    ) {
        let options = CsvOptions {
            delimiter: CsvDelimiter::new(delimiter).unwrap(),
            has_header,
            null: Some("NA".to_owned()),
            schema: schema.map(|schema| schema.parse().unwrap()),
        };
        // Types that the first pass tells fit in the second: what it accepts is read to the end.
        let input = Input::Stream(Box::new(Cursor::new(text)));
        if let Ok(import) = open(Path::new("t.csv"), input, &options) {
            let mut rows = 0;
            for batch in import.batches {
                match batch {
                    Ok(batch) => rows += batch.num_rows() as u64,
                    Err(error) => {
                        prop_assert!(options.schema.is_some(), "{}", error);
                        return Ok(());
                    }
                }
            }
            prop_assert!(import.rows.is_none_or(|expected| expected == rows));
        }
    }

    #[test]
    fn quoted_text_is_read_as_it_was(
        rows in prop::collection::vec(
            prop::collection::vec("[a-z,;\"\r\né ]{0,6}", 3),
            0..20,
        ),
    ) {
        let quoted = |value: &String| format!("\"{}\"", value.replace('"', "\"\""));
        let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",");
        let text: String = rows.iter().map(|row| line(row) + "\r\n").collect();
        let expected: Vec<_> = rows.iter().map(|row| row.join("|")).collect();
        let options =
            CsvOptions { has_header: false, ..with_schema("a:text,b:text,c:text not null") };
        let expected =
            [vec!["a=Utf8View b=Utf8View c=Utf8View not null".to_owned()], expected].concat();
        prop_assert_eq!(read(text.as_bytes(), &options), Ok(expected.join("\n")));
    }
}

//! How many bytes each column of TPC-H takes encoded, and how fast encoding and decoding are.
//!
//!     cargo run --release -p moirai-encodings --example tpch_sizes -- [SCALE [ROWS]]
//!
//! A minipage has ROWS rows. Rates are of the bytes in memory; "padded" fills each minipage up to whole blocks of 512 bytes.

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

use std::error::Error;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use moirai_encodings::{Encoder, NumberType, Numbers, Texts};
use moirai_runtime::Stopwatch;
use moirai_workloads::tpch::Table;

/// One column, or several together.
#[derive(Default)]
struct Sum {
    plain_bytes: usize,
    encoded_bytes: usize,
    padded_bytes: usize,
    encode_s: f64,
    decode_s: f64,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.plain_bytes += other.plain_bytes;
        self.encoded_bytes += other.encoded_bytes;
        self.padded_bytes += other.padded_bytes;
        self.encode_s += other.encode_s;
        self.decode_s += other.decode_s;
    }

    fn print(&self, name: &str) {
        let rate = |seconds: f64| self.plain_bytes as f64 / seconds / 1e6;
        println!(
            "{name:20} {:9.1} {:9.1} {:9.1} {:9.0} {:9.0}",
            self.plain_bytes as f64 / 1e6,
            self.encoded_bytes as f64 / 1e6,
            self.padded_bytes as f64 / 1e6,
            rate(self.encode_s),
            rate(self.decode_s),
        );
    }
}

fn column(encoder: &mut Encoder, array: &ArrayRef, sum: &mut Sum) -> Result<(), Box<dyn Error>> {
    let mut out = Vec::new();
    if let Some(text) = array.as_string_view_opt() {
        let (mut ends, mut bytes) = (Vec::new(), Vec::new());
        for value in text {
            bytes.extend(value.unwrap_or_default().as_bytes());
            ends.push(bytes.len() as u32);
        }
        let watch = Stopwatch::start();
        encoder.texts(&ends, &bytes, None, &mut out);
        sum.encode_s += watch.elapsed().as_s();
        let watch = Stopwatch::start();
        let mut ranges = Vec::new();
        let texts = Texts::parse(&out)?;
        texts.ranges(&mut ranges)?;
        sum.decode_s += watch.elapsed().as_s();
        sum.plain_bytes += bytes.len() + 16 * ends.len();
    } else {
        let (width_bytes, is_signed) = match array.data_type() {
            DataType::Int32 | DataType::Date32 => (4, true),
            DataType::Int64 => (8, true),
            _ => (16, true),
        };
        let data = array.to_data();
        let values = data
            .buffers()
            .first()
            .ok_or("a column without values")?
            .slice_with_length(data.offset() * width_bytes, data.len() * width_bytes);
        let watch = Stopwatch::start();
        encoder.numbers(&values, NumberType { width_bytes, is_signed }, None, &mut out);
        sum.encode_s += watch.elapsed().as_s();
        let watch = Stopwatch::start();
        let numbers = Numbers::parse(&out)?;
        match width_bytes {
            4 => numbers.decode::<u32>(&mut Vec::new())?,
            8 => numbers.decode::<u64>(&mut Vec::new())?,
            _ => numbers.decode::<i128>(&mut Vec::new())?,
        }
        sum.decode_s += watch.elapsed().as_s();
        sum.plain_bytes += values.len();
    }
    sum.encoded_bytes += out.len();
    sum.padded_bytes += out.len().next_multiple_of(512);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let scale = args.next().map_or(Ok(0.1), |scale| scale.parse())?;
    let rows = args.next().map_or(Ok(2048), |rows| rows.parse())?;
    println!(
        "{:20} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "MB", "encoded", "padded", "in MB/s", "out MB/s"
    );
    let mut all = Sum::default();
    let mut encoder = Encoder::new();
    for table in Table::ALL {
        let names: Vec<String> =
            table.schema().fields().iter().map(|field| field.name().clone()).collect();
        let mut sums: Vec<Sum> = names.iter().map(|_| Sum::default()).collect();
        for batch in table.batches(scale, rows) {
            for (array, sum) in batch?.columns().iter().zip(&mut sums) {
                column(&mut encoder, array, sum)?;
            }
        }
        let mut whole = Sum::default();
        for (name, sum) in names.iter().zip(&sums) {
            sum.print(name);
            whole.add(sum);
        }
        whole.print(table.name());
        all.add(&whole);
    }
    all.print("all");
    Ok(())
}

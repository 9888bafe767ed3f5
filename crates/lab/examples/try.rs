//! try
fn main() {
    let t = std::time::Instant::now();
    for row in moirai_lab::all()[0].outcome(1).unwrap().rows {
        println!("{:60} {:>4} {:>10.3?} {:>10.4} {:>7.3?} {:?}", row.figure, row.unit, row.published.unwrap_or(f64::NAN), row.ours, row.ratio.unwrap_or(f64::NAN), row.within);
    }
    println!("{:?}", t.elapsed());
}

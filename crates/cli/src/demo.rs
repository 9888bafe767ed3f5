//! `moirai demo`: both page layouts, on simulated disks and in a file.

use moirai::units::grouped;
use std::path::PathBuf;

use moirai_lab::demo::DemoOptions;
use moirai_lab::{DemoFigures, report};

use crate::failure::Failure;
use crate::{print, progress};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// TPC-H scale factor; 1 is about 1 GB of raw data
    #[arg(long, default_value_t = 0.1, value_parser = scale_factor)]
    scale: f64,
    /// The folder for the files and the report
    #[arg(long, default_value = "moirai-demo")]
    dir: PathBuf,
    /// Where random choices begin; the same seed gives the same virtual figures
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A TPC-H scale factor that data can be made for.
pub(crate) fn scale_factor(text: &str) -> Result<f64, String> {
    let least = moirai_workloads::tpch::SCALE_FACTOR_MIN;
    let parsed: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    if (least..=100_000.0).contains(&parsed) {
        return Ok(parsed);
    }
    Err(format!("a scale factor lies between {least} and 100000"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = DemoOptions {
        scale_factor: arguments.scale,
        seed: arguments.seed,
        folder: arguments.dir.clone(),
    };
    let bar = progress::bar("", Some(1000));
    let figures = moirai_lab::demo::run(&options, &|what, share| {
        bar.set_message(what.to_owned());
        bar.set_position((share * 1000.0) as u64);
    })?;
    bar.finish_and_clear();
    let path = arguments.dir.join("report.html");
    std::fs::write(&path, report::html(&figures))
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    if arguments.json {
        return print::json(&figures);
    }
    print_figures(&figures)?;
    print::line(format!(
        "Every answer is that of tables in memory. The same as a page: {}",
        path.display()
    ))
}

fn print_figures(figures: &DemoFigures) -> Result<(), Failure> {
    print::line(format!(
        "TPC-H at scale factor {}, in rows (nsm) and in capsules (csm)\n\
         simulated: {}\nfile: {}\n",
        figures.scale_factor, figures.simulated, figures.file
    ))?;
    print::table(
        &[
            ("workload", false),
            ("layout", false),
            ("MiB read", true),
            ("I/Os", true),
            ("virtual I/O ms", true),
            ("disk efficiency", true),
            ("file ms", true),
        ],
        figures
            .rows
            .iter()
            .map(|row| {
                vec![
                    row.workload.clone(),
                    row.layout.clone(),
                    format!("{:.1}", row.read_mib),
                    grouped(row.ios),
                    format!("{:.1}", row.simulated_io_ms),
                    format!("{:.0} %", row.disk_efficiency * 100.0),
                    format!("{:.1}", row.file_wall_ms),
                ]
            })
            .collect(),
    )
}

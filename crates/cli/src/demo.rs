//! `moirai demo`: rows and columns, on simulated disks and in files.

use moirai::units::grouped;
use std::path::PathBuf;

use moirai_lab::demo::DemoOptions;
use moirai_lab::{DemoFigures, report};

use crate::failure::Failure;
use crate::{output, print, progress};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// TPC-H scale factor; 1 is about 1 GB of raw data
    #[arg(long, default_value_t = 0.1, value_parser = scale_factor)]
    scale: f64,
    /// Folder for nsm.moirai, csm.moirai and report.html; created if it does not exist
    #[arg(long, default_value = "moirai-demo")]
    dir: PathBuf,
    /// Overwrite the files of an earlier demo
    #[arg(long)]
    force: bool,
    /// Seed of the random choices; the same seed gives the same virtual figures
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A TPC-H scale factor within the bounds of the data generator.
pub(crate) fn scale_factor(text: &str) -> Result<f64, String> {
    let least = moirai_workloads::tpch::SCALE_FACTOR_MIN;
    let parsed: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
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
    if !arguments.force {
        keep_files(&options)?;
    }
    let bar = progress::shares();
    let figures = moirai_lab::demo::run(&options, &|what, share| progress::show(&bar, what, share));
    bar.finish_and_clear();
    let figures = figures?;
    let path = options.report();
    output::write(&path, &report::html(&figures))?;
    if arguments.json {
        return print::json(&figures);
    }
    print_figures(&figures)?;
    print::line(format!(
        "Every answer equals that of tables in memory. The report: {}",
        path.display()
    ))
}

/// An error that names the files that the demo would overwrite, if there are any.
fn keep_files(options: &DemoOptions) -> Result<(), Failure> {
    let [nsm, csm] = options.stores();
    let paths = [nsm, csm, options.report()];
    let there: Vec<String> = paths
        .iter()
        .filter(|path| path.symlink_metadata().is_ok())
        .map(|path| path.display().to_string())
        .collect();
    if there.is_empty() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} would be overwritten: name another --dir, or give --force",
        there.join(", ")
    )))
}

fn print_figures(figures: &DemoFigures) -> Result<(), Failure> {
    print::line(format!(
        "TPC-H at scale factor {}, in rows (nsm) and in columns (csm)\n\
         simulated, in virtual time: {}\nfiles, in real time: {}\n",
        figures.scale_factor,
        figures.simulated,
        figures.files.join(", ")
    ))?;
    print::table(
        &[
            ("workload", false),
            ("layout", false),
            ("MiB read", true),
            ("MiB written", true),
            ("I/Os", true),
            ("I/O, virtual ms", true),
            ("disk efficiency", true),
            ("file, real ms", true),
        ],
        figures
            .rows
            .iter()
            .map(|row| {
                vec![
                    row.workload.clone(),
                    row.layout.clone(),
                    format!("{:.1}", row.read_mib),
                    format!("{:.1}", row.written_mib),
                    grouped(row.ios),
                    format!("{:.1}", row.simulated_io_ms),
                    format!("{:.0} %", row.disk_efficiency * 100.0),
                    format!("{:.1}", row.file_wall_ms),
                ]
            })
            .collect(),
    )
}

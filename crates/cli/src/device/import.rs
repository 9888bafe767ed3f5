//! `moirai device import`: DiskSim's parameter files become profiles.

use std::path::PathBuf;

use clap::Args;
use moirai::devices::import_mems;
use moirai_models::{MemsProfile, MemsProfileFile, Profile, Scheduler};
use serde::Serialize;

use super::drive;
use super::mems::ShownMems;
use crate::failure::Failure;
use crate::{output, print};

/// Make a profile from DiskSim's parameters of a drive or MEMS store (.diskspecs or .parv)
///
/// Files that the parameter file sources must lie in its folder. Notes on standard error name the parameters that a
/// profile cannot represent.
#[derive(Args)]
pub(crate) struct Arguments {
    /// DiskSim's parameter file
    file: PathBuf,
    /// Name of the drive's block, when the file has several
    #[arg(long)]
    drive: Option<String>,
    /// Bus rate of the machine in million bytes per second, where the file leaves it open
    #[arg(long, value_name = "MB")]
    bus_mb_per_s: Option<f64>,
    /// Profile to write [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: output::Force,
    /// Print what was imported and the notes as JSON
    #[arg(long, requires = "out")]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    name: String,
    capacity_bytes: u64,
    cylinders: u32,
    heads: u32,
    zones: usize,
    rotation_rpm: f64,
    bus_assumed: bool,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.force.needs_output(arguments.out.is_some())?;
    if let Some(path) = &arguments.out {
        arguments.force.check(path, &[&arguments.file.display().to_string()])?;
    }
    if let Err(error) = std::fs::metadata(&arguments.file) {
        return Err(Failure::Failed(format!("{}: {error}", arguments.file.display())));
    }
    if let Some((file, scheduler)) = import_mems(&arguments.file)? {
        return store(arguments, file, scheduler);
    }
    let mut drive = drive::imported(&arguments.file, arguments.drive.as_deref())?;
    if let Some(rate) = arguments.bus_mb_per_s {
        drive.profile.bus_mb_per_s = rate;
        drive.bus_assumed = false;
        drive.notes.retain(|note| !note.contains("MB/s are assumed"));
        let source = "extracted: the bus of the machine, as the import was told".to_owned();
        drive.profile.sources.insert("bus_mb_per_s".into(), source);
    }
    let invalid = |problem| {
        let file = arguments.file.display();
        Failure::Failed(format!("{file} does not give a valid profile: {problem}"))
    };
    let profile = Profile::new(drive.profile).map_err(invalid)?;
    if let Some(path) = &arguments.out {
        drive::write_profile(&profile.file, path)?;
    }
    if arguments.json {
        return print::json(&Shown {
            name: profile.file.name.clone(),
            capacity_bytes: profile.geometry.capacity().bytes().0,
            cylinders: profile.geometry.cylinders(),
            heads: profile.geometry.heads(),
            zones: profile.geometry.zones().len(),
            rotation_rpm: profile.file.rotation_rpm,
            bus_assumed: drive.bus_assumed,
            notes: drive.notes,
        });
    }
    print::notes(&drive.notes);
    match &arguments.out {
        None => print::line(drive::text(&profile.file)?.trim_end()),
        Some(path) => print::line(format!(
            "{}: {}, {}, {:.0} rpm, {} zones; `moirai device show sim:{}` shows it",
            path.display(),
            profile.file.name,
            profile.geometry.capacity().bytes(),
            profile.file.rotation_rpm,
            profile.geometry.zones().len(),
            path.display()
        )),
    }
}

/// A MEMS store; its file says everything of it but the order of its queue.
fn store(
    arguments: &Arguments,
    file: MemsProfileFile,
    scheduler: Option<Scheduler>,
) -> Result<(), Failure> {
    if arguments.drive.is_some() || arguments.bus_mb_per_s.is_some() {
        let problem = "the file describes a MEMS store: --drive and --bus-mb-per-s are for drives";
        return Err(Failure::Usage(problem.into()));
    }
    let profile = MemsProfile::new(file).map_err(|problem| {
        let file = arguments.file.display();
        Failure::Failed(format!("{file} does not give a valid profile: {problem}"))
    })?;
    if scheduler == Some(Scheduler::Fcfs) {
        let note = "the store of the file serves requests as they come, which a profile does not say: add `?scheduler=fcfs` to its URI";
        print::notes(&[note.to_owned()]);
    }
    let text = drive::text(&profile.file)?;
    let Some(path) = &arguments.out else { return print::line(text.trim_end()) };
    output::write(path, &text)?;
    if arguments.json {
        return print::json(&ShownMems::from(profile));
    }
    print::line(format!(
        "{}: {}, {}; `moirai device show sim:{}` shows it",
        path.display(),
        profile.file.name,
        profile.layout.capacity().bytes(),
        path.display()
    ))
}

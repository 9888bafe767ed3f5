//! `moirai device draw`: a picture of a drive.

use std::path::PathBuf;

use clap::Args;
use moirai_models::Profile;

use super::drive;
use crate::failure::Failure;
use crate::{output, print};

/// Draw a drive as SVG: its zones, its first tracks with their blocks and skew, its seek curve
#[derive(Args)]
pub(crate) struct Arguments {
    /// Drive, as sim:PROFILE
    uri: String,
    /// SVG file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    force: output::Force,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.force.check(&arguments.out, &[&arguments.uri])?;
    let drive = drive::named(&arguments.uri)?;
    print::notes(&drive.notes);
    let profile =
        Profile::new(drive.profile).map_err(|problem| Failure::Failed(problem.to_string()))?;
    output::write(&arguments.out, &moirai_charts::drive(&profile))?;
    print::note(format!("{}: open it in a browser", arguments.out.display()));
    Ok(())
}

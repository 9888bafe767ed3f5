//! `moirai volume watch`: the requests to a volume, recorded and characterised.

use std::path::{Path, PathBuf};

use moirai::volume::Description;
use moirai_replay::trace::{Format, TraceReader};

use crate::failure::Failure;
use crate::{output, plan, print, replay};

pub(super) fn run(
    path: &Path,
    record: Option<PathBuf>,
    stop: bool,
    json: bool,
) -> Result<(), Failure> {
    let mut description = Description::read(path)?;
    if stop || record.is_some() {
        let words = match &record {
            Some(trace) => format!("requests are recorded in {}", trace.display()),
            None => "requests are not recorded".into(),
        };
        description.record = record;
        output::replace(path, &description.text_for(path)?)?;
        return print::line(words);
    }
    let Some(trace) = &description.record else {
        let problem = "the requests are not recorded: begin with --record FILE";
        return Err(Failure::Failed(format!("{}: {problem}", path.display())));
    };
    let reader =
        TraceReader::new(trace.display().to_string(), replay::open(trace)?, Format::MsrCsv);
    let object =
        path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let characterised = plan::characterised(reader, &[(0, object)])?;
    if json {
        return print::json(&characterised);
    }
    plan::print_characterised(&characterised)?;
    print::line(format!("\n{}", characterised.workload().text(trace)?))
}

//! Files that commands write. None is overwritten without `--force`, and none that is read at all.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::failure::Failure;

/// A file that a command is to write.
#[derive(clap::Args)]
pub(crate) struct Force {
    /// Overwrite an output file that exists
    #[arg(long = "force")]
    force: bool,
}

impl Force {
    /// An error when `output` exists and is not to be overwritten, or is one of `inputs`, given as paths or as
    /// devices' URIs. Commands check before they begin their work.
    pub(crate) fn check(&self, output: &Path, inputs: &[&str]) -> Result<(), Failure> {
        keep_inputs(output, inputs)?;
        // A device such as /dev/stdout is not overwritten. A link to nowhere would make a file that nobody named.
        let is_there = output.is_file() || (output.is_symlink() && !output.exists());
        if is_there && !self.force {
            return Err(Failure::Usage(format!(
                "{} exists: name another file, or overwrite it with --force",
                output.display()
            )));
        }
        Ok(())
    }

    /// An error when `--force` is given and the command writes no file.
    pub(crate) fn needs_output(&self, has_output: bool) -> Result<(), Failure> {
        match self.force && !has_output {
            true => {
                Err(Failure::Usage("--force is for output files: name one, or leave it out".into()))
            }
            false => Ok(()),
        }
    }
}

/// An error when `output` is one of the files that are read, given as paths or as devices' URIs: of a volume also those of its
/// disks. Another name of the same file counts.
pub(crate) fn keep_inputs(output: &Path, inputs: &[&str]) -> Result<(), Failure> {
    let identity = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let Some(there) = identity(output) else { return Ok(()) };
    for input in inputs {
        let mut paths = vec![Path::new(input).to_owned()];
        paths.extend(moirai::files_of(input));
        if paths.iter().any(|path| identity(path) == Some(there)) {
            return Err(Failure::Usage(format!(
                "{} is a device or an input of this command, which would overwrite it: name another file",
                output.display()
            )));
        }
    }
    Ok(())
}

/// Writes a file whole.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|problem| Failure::Failed(format!("writing {}: {problem}", path.display())))
}

/// Writes a file anew, so that after a crash it is either the old one or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    let written = File::create(new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(new, path)
    });
    written.map_err(|problem| Failure::Failed(format!("writing {}: {problem}", path.display())))
}

//! Files that commands write. None is overwritten without `--force`, and none that is read at all.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    std::fs::write(path, text).map_err(|problem| failed(path, &problem))
}

/// Writes a file anew, so that after a crash it is either the old one or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let written = tempfile::Builder::new()
        .prefix(".moirai-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .and_then(|mut new| {
            new.write_all(text.as_bytes())?;
            new.as_file().sync_all()?;
            Ok(new.persist(path)?)
        });
    written.map(drop).map_err(|problem| failed(path, &problem))
}

/// A file that did not exist, and is removed again unless it is written whole.
pub(crate) struct NewFile {
    file: File,
    path: PathBuf,
    is_whole: bool,
}

impl NewFile {
    /// Makes one: where that fails, nothing has been done yet.
    pub(crate) fn create(path: &Path) -> Result<NewFile, Failure> {
        let file = File::create_new(path).map_err(|problem| failed(path, &problem))?;
        Ok(NewFile { file, path: path.to_owned(), is_whole: false })
    }

    pub(crate) fn write(mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        written.map_err(|problem| failed(&self.path, &problem))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // What cannot be removed is empty.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn failed(path: &Path, problem: &std::io::Error) -> Failure {
    Failure::Failed(format!("writing {}: {problem}", path.display()))
}

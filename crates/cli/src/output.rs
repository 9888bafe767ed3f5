//! Files that commands write, and those that they must not write over.

use std::io::Write;
use std::path::Path;

use moirai::storage::DeviceUri;

use crate::failure::Failure;

/// An error when `output` is one of the files that are read, given as paths or as devices' URIs.
pub(crate) fn keep_inputs(output: &Path, inputs: &[&str]) -> Result<(), Failure> {
    let Ok(there) = output.canonicalize() else { return Ok(()) };
    for input in inputs {
        let uri: Option<DeviceUri> = input.parse().ok();
        let path = uri.map_or_else(|| (*input).to_owned(), |uri| uri.target);
        if Path::new(&path).canonicalize().is_ok_and(|path| path == there) {
            let problem =
                format!("{} is read, and would be written over: name another", output.display());
            return Err(Failure::Usage(problem));
        }
    }
    Ok(())
}

/// An error when `path` is there already, unless `overwrite`.
pub(crate) fn keep_file(path: &Path, overwrite: bool) -> Result<(), Failure> {
    if path.exists() && !overwrite {
        let problem = format!("{} is there already: name another file, or --force", path.display());
        return Err(Failure::Usage(problem));
    }
    Ok(())
}

/// Writes a file whole.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|problem| Failure::Failed(format!("writing {}: {problem}", path.display())))
}

/// Writes a file anew, so that it is the old one or the new one whatever happens.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    let written = std::fs::File::create(new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(new, path)
    });
    written.map_err(|problem| Failure::Failed(format!("writing {}: {problem}", path.display())))
}

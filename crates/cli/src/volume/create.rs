//! `moirai volume create`.

use std::path::Path;
use std::sync::Arc;

use moirai::storage::{Device, DeviceUri};
use moirai::units::BlockCount;
use moirai::volume::{Description, Format, Part, format, is_blank, lay_out};

use super::show;
use crate::failure::Failure;
use crate::{output, progress, run};

pub(super) fn create(path: &Path, description: &Description, force: bool) -> Result<(), Failure> {
    if path.exists() {
        return Err(Failure::Failed(format!(
            "{}: the file is there already: choose another name, or remove it",
            path.display()
        )));
    }
    description.check_labels(path)?;
    if let Some(controller) = &description.controller {
        controller.size(path)?;
    }
    let made = run::in_time(moirai::are_simulated(&description.uris())?, async {
        if !description.parts.is_empty() {
            return Ok(description.clone());
        }
        if description.labels {
            return label(path, description, force).await;
        }
        // Checking makes no contents.
        lay_out(path, description, moirai::devices::open_without_data)?;
        Ok::<_, Failure>(description.clone())
    })?;
    // A description that does not fit its devices is never written.
    output::write(path, &made.to_toml())?;
    show::show(path, false)
}

/// Puts more parts behind those of a volume.
pub(super) fn append(path: &Path, uris: Vec<String>) -> Result<(), Failure> {
    let mut description = Description::read(path)?;
    if description.parts.is_empty() {
        return Err(Failure::Failed(format!(
            "{}: it has devices and a layout: make a volume of parts, with --part volume:{0} first",
            path.display()
        )));
    }
    let all: Vec<String> = description.uris().into_iter().chain(uris.iter().cloned()).collect();
    refuse_twice(&all)?;
    moirai::are_simulated(&all)?;
    description.parts.extend(parts(uris)?);
    output::replace(path, &description.to_toml())?;
    show::show(path, false)
}

/// The parts that `uris` name, with the blocks that they have now.
pub(super) fn parts(uris: Vec<String>) -> Result<Vec<Part>, Failure> {
    refuse_twice(&uris)?;
    run::in_time(moirai::are_simulated(&uris)?, async {
        let mut parts = Vec::with_capacity(uris.len());
        for uri in uris {
            let blocks = moirai::open_device(&uri).await?.inquiry().capacity.0;
            parts.push(Part { uri, blocks });
        }
        Ok(parts)
    })
}

fn refuse_twice(uris: &[String]) -> Result<(), Failure> {
    for (index, uri) in uris.iter().enumerate() {
        if uris.iter().take(index).any(|other| other == uri) {
            return Err(Failure::Failed(format!("{uri} is a part already")));
        }
    }
    Ok(())
}

/// Labels the devices; gives the description with their names from now on.
async fn label(
    path: &Path,
    description: &Description,
    force: bool,
) -> Result<Description, Failure> {
    let is_blank = description.devices.iter().all(|uri| is_new(uri));
    let mut devices = Vec::new();
    for uri in &description.devices {
        devices.push(blank_device(uri, force).await?);
    }
    let (level, layout) = (description.level(path)?, description.layout(path)?);
    let integrity = description.integrity;
    let how = Format { level, layout, journal: None, integrity, is_blank };
    let bar = progress::bar("clearing", Some(0));
    let name = path.display().to_string();
    let progress = |done: BlockCount, all: BlockCount| {
        bar.set_length(all.0);
        bar.set_position(done.0);
    };
    format(&name, &devices, how, progress).await?;
    bar.finish_and_clear();
    let named = description.devices.iter().map(|uri| lasting_name(uri)).collect::<Result<_, _>>();
    let mut lasting = description.clone();
    lasting.devices = named?;
    Ok(lasting)
}

/// Whether the file that a device's data are kept in is not there yet, and so will hold nothing.
fn is_new(uri: &str) -> bool {
    let Ok(mut uri) = uri.parse::<DeviceUri>() else { return false };
    let data: Option<String> = uri.take("data").ok().flatten();
    let file = data.as_deref().unwrap_or(&uri.target);
    !Path::new(file).exists()
}

/// Opens a device that is to be labelled. An error when it holds something, unless `force`.
pub(super) async fn blank_device(uri: &str, force: bool) -> Result<Arc<dyn Device>, Failure> {
    let device = moirai::devices::open(uri.parse()?)?;
    if !force && !is_blank(&*device).await? {
        return Err(Failure::Failed(format!(
            "{uri} holds something, and it would be lost: choose another device, or say --force"
        )));
    }
    Ok(device)
}

/// The URI of a device that is there now: it is not to be made again when it is gone.
pub(super) fn lasting_name(uri: &str) -> Result<String, Failure> {
    let uri: DeviceUri = uri.parse()?;
    Ok(uri.without("size"))
}

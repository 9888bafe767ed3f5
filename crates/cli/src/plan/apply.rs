//! `moirai plan apply`: volumes for a plan's objects, and objects that move to where the plan has them.

use std::path::Path;

use moirai::storage::DeviceUri;
use moirai::units::BlockCount;
use moirai::{Access, NewFiles};
use moirai_policy::Plan;
use moirai_policy::apply::{Disks, Folder, Step, apply, go_back};
use serde::Serialize;

use super::Apply;
use crate::failure::Failure;
use crate::{print, progress, run};

#[derive(Serialize)]
struct Shown {
    folder: String,
    objects: Vec<ShownObject>,
}

#[derive(Serialize)]
struct ShownObject {
    name: String,
    volume: String,
    raid: String,
    stripe_unit_bytes: u64,
    bytes: u64,
    sections: Vec<ShownSection>,
}

#[derive(Serialize)]
struct ShownSection {
    array: usize,
    first_block: u64,
    blocks: u64,
}

pub(super) fn run(arguments: &Apply) -> Result<(), Failure> {
    let folder = &arguments.folder;
    if arguments.back {
        let mut folder = Folder::reopen(folder)?;
        let words = match go_back(&mut folder)? {
            Some(object) => format!("`{object}` stays where it was"),
            None => "no object was moving".into(),
        };
        return print::line(words);
    }
    let Some(path) = &arguments.plan else {
        return Err(Failure::Usage("name the plan".into()));
    };
    let plan = Plan::read(path)?;
    let is_new_folder = !folder.join("placement.toml").exists();
    let uris = disks(arguments, &plan, is_new_folder)?;
    let all: Vec<String> = uris.concat();
    let is_virtual = moirai::are_simulated(&all)?;
    if is_new_folder {
        std::fs::create_dir_all(folder).map_err(|problem| {
            Failure::Failed(format!("creating {}: {problem}", folder.display()))
        })?;
    }
    let files = NewFiles::new();
    let applied = run::in_time(is_virtual, async {
        let mut disks: Disks = Vec::new();
        for array in &uris {
            let open = |uri: &String| {
                let access = if is_new_folder { Access::Create(&files) } else { Access::Write };
                moirai::devices::open(uri.parse()?, access)
            };
            disks.push(array.iter().map(open).collect::<Result<_, _>>()?);
        }
        if is_new_folder {
            let held = moirai::storage::occupants(&disks.concat(), arguments.overwrite).await?;
            let opened = disks.concat();
            for (index, occupant) in held {
                if let Some(device) = opened.get(index) {
                    moirai::storage::clear_ends(&**device).await?;
                }
                print::note_of_loss(all.get(index).map_or("", String::as_str), &occupant);
            }
        }
        let mut folder = Folder::open(folder, &plan, &uris)?;
        let is_new = |uri: &String| {
            let path = uri.parse::<DeviceUri>().ok().and_then(|uri| uri.data_path());
            path.is_some_and(|path| files.contains(&path))
        };
        let done = carry_out(&mut folder, &plan, &disks, all.iter().all(is_new)).await;
        if done.is_err() && is_new_folder {
            folder.remove_unused()?;
        }
        done?;
        Ok::<Folder, Failure>(folder)
    });
    if applied.is_err() && !folder.join("placement.toml").exists() {
        files.remove();
    }
    let applied = applied?;
    for left in applied
        .objects()
        .map(|(name, _)| name)
        .filter(|name| plan.objects.iter().all(|object| object.name != *name))
    {
        print::note(format!("`{left}` is not in the plan: it stays where it is"));
    }
    shown(&applied, arguments.json)
}

async fn carry_out(
    folder: &mut Folder,
    plan: &Plan,
    disks: &Disks,
    are_blank: bool,
) -> Result<(), Failure> {
    let bar = progress::shares();
    let share = |done: BlockCount, all: BlockCount| done.0 as f64 / all.0.max(1) as f64;
    let mut report = |step: Step| match step {
        Step::Making(object) => progress::show(&bar, &format!("making {object}"), 0.0),
        // Nothing else uses the object while the command has its disks.
        Step::Moving(..) => {}
        Step::Copying(object, done, all) => {
            progress::show(&bar, &format!("copying {object}"), share(done, all) * 0.6);
        }
        Step::Comparing(object, done, all) => {
            progress::show(&bar, &format!("comparing {object}"), 0.6 + share(done, all) * 0.4);
        }
        Step::Placed(object) => progress::show(&bar, &format!("placed {object}"), 1.0),
    };
    let done = apply(folder, plan, disks, are_blank, &mut report).await;
    bar.finish_and_clear();
    Ok(done?)
}

/// The URIs of the plan's disks by array: those that were given, those that the folder has, or simulated
/// ones with their contents in files of the folder.
fn disks(arguments: &Apply, plan: &Plan, is_new: bool) -> Result<Vec<Vec<String>>, Failure> {
    let folder = &arguments.folder;
    if arguments.devices.is_empty() && !is_new {
        return Ok(Folder::disks_now(folder)?);
    }
    let needed: usize = plan.arrays.iter().map(|array| array.disks).sum();
    if arguments.devices.is_empty() {
        let simulated = plan.arrays.iter().enumerate().map(|(index, array)| {
            let disk = |disk| {
                let data = folder.join(format!("disk-{index}-{disk}.img"));
                format!("sim:{}?data={}", array.profile, data.display())
            };
            (0..array.disks).map(disk).collect()
        });
        return Ok(simulated.collect());
    }
    if arguments.devices.len() != needed {
        return Err(Failure::Usage(format!(
            "the plan has {needed} disks, and {} are given: name a --device for each, array by array",
            arguments.devices.len()
        )));
    }
    let mut devices = arguments.devices.iter().cloned();
    Ok(plan.arrays.iter().map(|array| devices.by_ref().take(array.disks).collect()).collect())
}

fn shown(folder: &Folder, json: bool) -> Result<(), Failure> {
    let objects = folder.objects().map(|(name, placed)| ShownObject {
        name: name.to_owned(),
        volume: format!("volume:{}", folder.description(name).display()),
        raid: placed.level.clone(),
        stripe_unit_bytes: BlockCount(placed.unit_blocks).bytes().0,
        bytes: BlockCount(placed.blocks).bytes().0,
        sections: placed
            .arrays
            .iter()
            .map(|array| ShownSection {
                array: array.array,
                first_block: array.first,
                blocks: array.count,
            })
            .collect(),
    });
    let objects: Vec<ShownObject> = objects.collect();
    if json {
        return print::json(&Shown { folder: path_text(folder.path()), objects });
    }
    let columns = [
        ("object", false),
        ("size", true),
        ("level", false),
        ("unit", true),
        ("on arrays", false),
        ("volume", false),
    ];
    let rows = objects.iter().map(|object| {
        let arrays: Vec<String> =
            object.sections.iter().map(|section| section.array.to_string()).collect();
        vec![
            object.name.clone(),
            moirai::units::ByteCount(object.bytes).to_string(),
            object.raid.clone(),
            moirai::units::ByteCount(object.stripe_unit_bytes).to_string(),
            arrays.join(", "),
            object.volume.clone(),
        ]
    });
    print::table(&columns, rows.collect())
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

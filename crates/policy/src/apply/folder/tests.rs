//! What a program that is killed, or another one, leaves in a folder.

use super::*;

/// The files of a folder.
type Files = BTreeMap<String, Vec<u8>>;

fn files(path: &Path) -> Files {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let content = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read(&path).unwrap())
    };
    entries.map(content).collect()
}

fn restored(files: &Files) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// A place on some arrays.
fn place(arrays: &[usize]) -> Placed {
    let array = |array: &usize| PlacedArray { array: *array, first: 0, count: 4096 };
    Placed {
        blocks: 4096,
        level: "raid5".into(),
        unit_blocks: 16,
        generation: 0,
        arrays: arrays.iter().map(array).collect(),
    }
}

fn array(name: &str) -> PlannedArray {
    let profile = "seagate-cheetah-36es".into();
    PlannedArray { name: name.into(), profile, disks: 3, cost: 0.0 }
}

/// A folder at `path` whose object `orders` lies on one array and moves to two.
fn moving(path: &Path) -> Folder {
    let plan = Plan {
        name: "plan".into(),
        controller: crate::Arrays::default(),
        arrays: ["a", "b"].map(array).into(),
        objects: Vec::new(),
    };
    let disk = |array: usize, disk: usize| {
        format!("file:{}", path.join(format!("{array}{disk}.img")).display())
    };
    let disks: Vec<Vec<String>> =
        (0..2).map(|array| (0..3).map(|index| disk(array, index)).collect()).collect();
    let mut folder = Folder::open(path, &plan, &disks).unwrap();
    folder.begin("orders", place(&[0])).unwrap();
    folder.switch("orders").unwrap();
    folder.begin("orders", place(&[0, 1])).unwrap();
    folder
}

#[test]
fn names_that_would_share_files_are_refused() {
    let made = tempfile::tempdir().unwrap();
    let folder = moving(made.path());
    let object = |name: &str| crate::Placement {
        name: name.into(),
        size: "1MiB".into(),
        arrays: vec!["a".into()],
        level: "raid5".into(),
        stripe_unit: "8KiB".into(),
        growth: 0.0,
        goal: None,
    };
    let plan = |name: &str| Plan {
        name: "plan".into(),
        controller: crate::Arrays::default(),
        arrays: ["a", "b"].map(array).into(),
        objects: vec![object(name)],
    };
    // `.a.0.0.toml` is the stripe of `a.0`, and the volume of `a` on the first array.
    for name in ["a.0", "a.0.0", "placement", "", ".a", "a/b", "a?b"] {
        assert!(folder.check(&plan(name)).is_err(), "{name}");
    }
    for name in ["a", "a.b", "a.0b", "7", "a-0"] {
        folder.check(&plan(name)).unwrap();
    }
}

#[test]
fn what_others_wrote_is_kept_or_refused() {
    let made = tempfile::tempdir().unwrap();
    let mut folder = moving(made.path());
    let path = folder.description("orders");
    // Requests are recorded, as `moirai volume watch` says.
    let mut description = Description::read(&path).unwrap();
    description.record = Some(made.path().join("trace.csv"));
    write(&path, &description.text_for(&path).unwrap()).unwrap();
    folder.switch("orders").unwrap();
    let after = Description::read(&path).unwrap();
    assert_eq!(after.record, description.record);
    assert_ne!(after.parts, description.parts);
    // The volume has grown.
    let mut grown = after;
    let more = Part { uri: format!("file:{}", made.path().join("more.img").display()), blocks: 8 };
    grown.parts.push(more);
    write(&path, &grown.text_for(&path).unwrap()).unwrap();
    let error = folder.begin("orders", place(&[0])).unwrap_err().to_string();
    assert!(error.contains("volume grow") && error.contains("orders.toml"), "{error}");
    // A file of somebody else.
    let other = made.path().join("plan.toml");
    std::fs::write(&other, "name = \"plan\"").unwrap();
    let error = folder.begin("plan", place(&[0])).unwrap_err().to_string();
    assert!(error.contains("plan.toml"), "{error}");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "name = \"plan\"");
}

/// What a program that is killed in the switch leaves: of the files that it writes and then removes, in their order, as many as
/// it came to.
#[test]
fn a_switch_that_is_cut_off_is_done_from_its_description_on() {
    let made = tempfile::tempdir().unwrap();
    let mut folder = moving(made.path());
    let mut left = files(made.path());
    let (from, to) =
        (folder.placed("orders").unwrap().clone(), folder.moving().unwrap().to.clone());
    folder.switch("orders").unwrap();
    drop(folder);
    let done = files(made.path());
    let mut steps = vec![("nothing", left.clone())];
    for name in ["orders.toml", FILE] {
        assert_ne!(left[name], done[name], "{name}");
        left.insert(name.into(), done[name].clone());
        steps.push((name, left.clone()));
    }
    assert_eq!(left.len(), done.len() + 1, "the former description is removed");
    steps.push(("all", done));
    for (step, left) in steps {
        let folder = restored(&left);
        let mut opened = Folder::reopen(folder.path()).unwrap();
        let given_up = opened.settle().unwrap();
        let is_back = step == "nothing";
        assert_eq!(given_up.is_some(), is_back, "after {step}");
        assert_eq!(opened.placed("orders"), Some(if is_back { &from } else { &to }));
        assert_eq!(opened.moving(), None);
        // Every description that is referred to is there, and the folder says the same when it is read again.
        for (path, _) in
            opened.part_descriptions("orders", opened.placed("orders").unwrap()).unwrap()
        {
            assert!(path.exists(), "{} after {step}", path.display());
        }
        assert_eq!(Folder::read(folder.path()).unwrap().state, opened.state);
    }
}

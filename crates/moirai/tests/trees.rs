//! Stores of trees by URI.

use moirai::btree::{Batch, Error, Store, Tree};
use moirai::runtime::{block_on_real, wait};
use moirai::units::{ByteCount, Nanos};
use moirai::update::{Kinds, LogWriter, Options};
use moirai::{NewFiles, NewTrees, TreesPlace, create_trees, open_trees};

async fn open(data: &str, logs: &[String]) -> Result<Store, Error> {
    open_trees(TreesPlace { data, logs }, Kinds::new(), Options::default()).await
}

async fn create(data: &str, logs: &[String], writer: LogWriter) -> Result<Store, Error> {
    let files = &NewFiles::new();
    let new = NewTrees { leaf: ByteCount(4096), log: None, writer, files, overwrite: false };
    let place = TreesPlace { data, logs };
    Ok(create_trees(place, new, Kinds::new(), Options::default()).await?.store)
}

/// The log is behind the data also when the device has grown: it is where it was.
#[test]
fn a_store_goes_on_on_a_device_that_has_grown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let uri = format!("file:{}", path.display());
    let found = |key: &'static [u8]| {
        let uri = uri.clone();
        async move {
            let store = open(&uri, &[]).await.unwrap();
            let tree = store.tree("one").await.unwrap();
            let found = store.get(&tree, key).await.unwrap();
            (store, tree, found)
        }
    };
    block_on_real(1, async {
        let store = create(&format!("{uri}?size=8MiB"), &[], LogWriter::Append).await.unwrap();
        let tree = store.tree("one").await.unwrap();
        store.put(&tree, b"before", b"1").await.unwrap();
        // It ends as in a crash: what it has is in the log.
    });
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(16 << 20).unwrap();
    block_on_real(1, async {
        let (store, tree, before) = found(b"before").await;
        assert_eq!(before, Some(b"1".to_vec()));
        store.put(&tree, b"after", b"2").await.unwrap();
        store.close().await.unwrap();
        // Who closed it can open it again at once.
        let (_store, _, after) = found(b"after").await;
        assert_eq!(after, Some(b"2".to_vec()));
    });
}

/// Puts records of 100 KB, from number `next` on, until the store is full; the number after the last.
async fn fill(store: &Store, tree: &Tree, mut next: u32) -> u32 {
    loop {
        let mut batch = Batch::new();
        for part in 0..100_u32 {
            batch.put(tree, &[next.to_be_bytes(), part.to_be_bytes()].concat(), &[7; 1000]);
        }
        match store.commit(&batch).await {
            Ok(()) => next += 1,
            Err(Error::Update(moirai::update::Error::Full { .. })) => return next,
            Err(error) => panic!("{error}"),
        }
    }
}

/// With the log at the end of the device, and with a log of its own.
#[test]
fn a_full_store_goes_on_when_its_device_grows() {
    for has_log in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let uri = format!("file:{}", path.display());
        let log = format!("file:{}", folder.path().join("log").display());
        let logs = |more: &str| if has_log { vec![format!("{log}{more}")] } else { Vec::new() };
        block_on_real(1, async {
            let (data, new_logs) = (format!("{uri}?size=8MiB"), logs("?size=1MiB"));
            let store = create(&data, &new_logs, LogWriter::Append).await.unwrap();
            let tree = store.tree("one").await.unwrap();
            let full = fill(&store, &tree, 0).await;
            store.close().await.unwrap();
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(24 << 20).unwrap();
            let store = open(&uri, &logs("")).await.unwrap();
            let tree = store.tree("one").await.unwrap();
            let grown = fill(&store, &tree, full).await;
            assert!(grown >= full * 5 / 2, "{full} before, {grown} after");
            store.close().await.unwrap();
            let store = open(&uri, &logs("")).await.unwrap();
            let tree = store.tree("one").await.unwrap();
            for number in 0..grown {
                let key = [number.to_be_bytes(), 99_u32.to_be_bytes()].concat();
                let found = store.get(&tree, &key).await.unwrap();
                assert_eq!(found, Some(vec![7; 1000]), "{number} of {grown}, {full} at first");
            }
        });
    }
}

/// Two programs read while neither writes; nothing is written to the file.
#[test]
fn readers_share_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let uri = format!("file:{}", path.display());
    block_on_real(1, async {
        let store = create(&format!("{uri}?size=8MiB"), &[], LogWriter::Append).await.unwrap();
        let tree = store.tree("one").await.unwrap();
        store.put(&tree, b"key", b"value").await.unwrap();
        store.close().await.unwrap();
        let before = std::fs::read(&path).unwrap();
        let options = Options { read_only: true, ..Options::default() };
        let reader = || open_trees(TreesPlace { data: &uri, logs: &[] }, Kinds::new(), options);
        let (one, two) = (reader().await.unwrap(), reader().await.unwrap());
        for store in [&one, &two] {
            let tree = store.find_tree("one").await.unwrap().unwrap();
            assert_eq!(store.get(&tree, b"key").await.unwrap(), Some(b"value".to_vec()));
            let refused = store.put(&tree, b"key", b"other").await.unwrap_err();
            assert!(matches!(refused, Error::Update(moirai::update::Error::ReadOnly { .. })));
        }
        one.close().await.unwrap();
        two.close().await.unwrap();
        assert!(std::fs::read(&path).unwrap() == before);
    });
}

#[test]
fn a_log_that_is_not_named_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let uri = |name: &str| format!("file:{}", folder.path().join(name).display());
    block_on_real(1, async {
        let logs = [format!("{}?size=1MiB", uri("log"))];
        let store =
            create(&format!("{}?size=8MiB", uri("data")), &logs, LogWriter::Append).await.unwrap();
        store.close().await.unwrap();
        let refused = open(&uri("data"), &[]).await.unwrap_err().to_string();
        assert!(refused.contains("name the devices of the log"), "{refused}");
        open(&uri("data"), &[uri("log")]).await.unwrap();
    });
}

/// Trail places its writes by the position of the head: data on the same disk would move it. What is refused leaves the
/// device as it was, so that a store can be made there after all.
#[test]
fn trail_is_refused_without_disks_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("file:{}?size=8MiB", folder.path().join("store").display());
    let writer = LogWriter::Trail { rotation: Nanos(6_000_000) };
    block_on_real(1, async {
        let refused = create(&uri, &[], writer).await.err().unwrap();
        let refused = refused.to_string();
        assert!(refused.contains("needs log devices"), "{refused}");
        create(&uri, &[], LogWriter::Append).await.unwrap();
    });
}

/// Tasks of a runtime of several threads may await all of it; a program without a runtime waits.
#[test]
fn stores_by_uri_are_for_all_programs() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("file:{}", folder.path().join("store").display());
    let sized = format!("{uri}?size=8MiB");
    let store = wait(is_send(create(&sized, &[], LogWriter::Append))).unwrap();
    let tree = wait(store.tree("one")).unwrap();
    wait(store.put(&tree, b"key", b"value")).unwrap();
    wait(store.close()).unwrap();
    let store = wait(is_send(open(&uri, &[]))).unwrap();
    let tree = wait(store.tree("one")).unwrap();
    assert_eq!(wait(store.get(&tree, b"key")).unwrap(), Some(b"value".to_vec()));
    wait(store.close()).unwrap();
    drop(is_send(moirai::open_device(&uri)));
    let place = TreesPlace { data: &uri, logs: &[] };
    drop(is_send(moirai::open_tables(place, Kinds::new(), Options::default())));
}

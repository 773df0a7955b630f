//! Units of systemd that run a profile.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};
use crate::profile::{Config, Profile};

/// What keeps the service from doing more than a backup needs. A service of a user has no right to
/// most of it.
const HARDENING: &str = "\
# It reads everything, writes only where ReadWritePaths says, and gets no new rights.
CapabilityBoundingSet=CAP_DAC_READ_SEARCH
ProtectSystem=strict
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
StateDirectory=ibid
CacheDirectory=ibid
Environment=HOME=%h
";

/// Returns a service and a timer, each under a line with the name of its file.
///
/// # Errors
/// The path of this program can't be found out; the times are no text for a unit.
pub(super) fn units(config: &Config, name: &str, profile: &Profile, on_calendar: &str) -> Result<String> {
    if on_calendar.chars().any(char::is_control) || on_calendar.trim().is_empty() {
        return Err(Failure::Usage(
            "--on-calendar takes times of one line, such as daily; see systemd.time(7)".into(),
        ));
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::Fatal(format!("cannot find this program: {}", ibid_terminal::reason(&error))))?;
    let is_root = rustix::process::geteuid().is_root();
    let (folder, scope) = match is_root {
        true => ("/etc/systemd/system", ""),
        false => ("~/.config/systemd/user", " --user"),
    };
    let hardening = if is_root { hardening(profile) } else { String::new() };
    let [program, config] = [&program, &config.path].map(|path| argument(path.as_os_str()));
    let times = on_calendar.replace('%', "%%");
    Ok(format!(
        "\
# {folder}/ibid-{name}.service
# Put each part into the file that its first line names, then run:
#   systemctl{scope} daemon-reload
#   systemctl{scope} enable --now ibid-{name}.timer
# `systemctl{scope} start ibid-{name}` runs it now, `journalctl{scope} -u ibid-{name}` shows what it said.
[Unit]
Description=Back up with ibid, profile {name}
Documentation=man:ibid(1) man:ibid-run(1)

[Service]
Type=oneshot
ExecStart={program} --config {config} run {name}
Nice=10
IOSchedulingClass=idle
NoNewPrivileges=yes
{hardening}
# {folder}/ibid-{name}.timer
[Unit]
Description=Run ibid's profile {name}

[Timer]
OnCalendar={times}
RandomizedDelaySec=10min
# If the machine was off, it runs when the machine is on again.
Persistent=yes

[Install]
WantedBy=timers.target
"
    ))
}

/// Returns the lines that limit the service of a profile.
fn hardening(profile: &Profile) -> String {
    let mut text = HARDENING.to_owned();
    let mut line = |setting: &str| text += &format!("{setting}\n");
    let backup = profile.tables.get("backup");
    if let Some(repository) = profile.global_values("repo").first().map(PathBuf::from) {
        // What is made by the first run is made in the folder around it.
        let makes_it = backup.is_some_and(|table| table.has("init")) && !repository.exists();
        let folder = repository.parent().filter(|_| makes_it).unwrap_or(&repository);
        line(&format!("ReadWritePaths={}", optional(folder)));
    }
    match profile.global_values("cache_dir").first() {
        Some(folder) => line(&format!("ReadWritePaths={}", optional(Path::new(folder)))),
        None => line("Environment=IBID_CACHE_DIR=%C/ibid"),
    }
    // A command that asks for the password may ask over the network.
    if profile.global_values("password_command").is_empty() {
        line("PrivateNetwork=yes");
    }
    let is_device = |path: &std::ffi::OsString| Path::new(path).starts_with("/dev");
    if !backup.is_some_and(|table| table.values("paths").iter().any(is_device)) {
        line("PrivateDevices=yes");
    }
    text
}

/// Returns a path that the service may do without: ibid says what is missing.
fn optional(path: &Path) -> String {
    let text = quoted(path.as_os_str(), false);
    match text.strip_prefix('"') {
        Some(rest) => format!("\"-{rest}"),
        None => format!("-{text}"),
    }
}

/// Returns a word of a command line.
fn argument(word: &OsStr) -> String {
    quoted(word, true)
}

/// Returns a word as units write it: quoted if it has other bytes than paths usually have. A dollar
/// is special in commands only.
fn quoted(word: &OsStr, is_command: bool) -> String {
    let mut text = String::new();
    let mut is_plain = true;
    for &byte in word.as_bytes() {
        match byte {
            b'%' => text += "%%",
            b'$' if is_command => text += "$$",
            _ if byte.is_ascii_alphanumeric() || b"/_-.+,:@=".contains(&byte) => text.push(char::from(byte)),
            _ => {
                is_plain = false;
                text += &format!("\\x{byte:02x}");
            }
        }
    }
    match is_plain && !text.is_empty() {
        true => text,
        false => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_units_need_it() {
        let both = |word: &str| (argument(word.as_ref()), optional(Path::new(word)));
        assert_eq!(both("/mnt/a-b"), ("/mnt/a-b".into(), "-/mnt/a-b".into()));
        assert_eq!(both("/a b"), ("\"/a\\x20b\"".into(), "\"-/a\\x20b\"".into()));
        assert_eq!(both("/50%$"), ("/50%%$$".into(), "\"-/50%%\\x24\"".into()));
    }
}

//! Credentials in the files of AWS's tools: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

/// How long credentials are taken for good that don't say when they end: files are written anew by other tools.
const KEPT: Duration = Duration::from_secs(60);
/// Credentials that end so soon are fetched anew.
const EARLY: Duration = Duration::from_secs(60);

/// The settings of a profile, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings(HashMap<String, String>);

impl Settings {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// The two files and the profile in them.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    name: String,
    files: [PathBuf; 2],
}

impl Profile {
    /// Returns the profile of this name, or the one that the environment names.
    pub(crate) fn named(name: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> Profile {
        let home = PathBuf::from(variable("HOME").unwrap_or_default());
        let file =
            |name: &str, usual: &str| variable(name).map_or_else(|| home.join(".aws").join(usual), PathBuf::from);
        let name = name.map(str::to_owned).or_else(|| variable("AWS_PROFILE"));
        Profile {
            name: name.unwrap_or_else(|| "default".into()),
            files: [
                file("AWS_CONFIG_FILE", "config"),
                file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            ],
        }
    }

    /// Returns what both files say; those of credentials count where both say something. Nothing if there are none.
    pub(crate) fn settings(&self) -> std::io::Result<Settings> {
        let mut all = HashMap::new();
        for (file, in_config) in self.files.iter().zip([true, false]) {
            let text = match std::fs::read_to_string(file) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                text => text.map_err(|error| named(file, &error))?,
            };
            all.extend(section(&text, &self.name, in_config));
        }
        Ok(Settings(all))
    }
}

fn named(file: &Path, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display()))
}

/// Returns the settings of a profile in the text of a file.
fn section(text: &str, profile: &str, in_config: bool) -> HashMap<String, String> {
    let mut settings = HashMap::new();
    let mut inside = false;
    for line in text.lines() {
        // Indented lines are nested settings, as of `s3`, which ibid does not know.
        if line.starts_with([' ', '\t']) {
            continue;
        }
        let line = line.trim();
        if let Some(title) = line.strip_prefix('[') {
            let title = title.split(']').next().unwrap_or_default().trim();
            let name = match title.split_once(char::is_whitespace) {
                Some(("profile", name)) if in_config => name.trim().trim_matches('"'),
                Some(_) => "",
                None => title,
            };
            // In the file of settings, only `default` can be without the word.
            inside = name == profile && (!in_config || name == "default" || title.starts_with("profile"));
        } else if inside
            && !line.starts_with(['#', ';'])
            && let Some((name, value)) = line.split_once('=')
        {
            settings.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    settings
}

/// Gives the credentials of a profile, which are read again while it is used.
pub(crate) struct ProfileCredentials {
    profile: Profile,
    kept: Mutex<Option<(Arc<AwsCredential>, Instant)>>,
}

impl fmt::Debug for ProfileCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileCredentials")
            .field("profile", &self.profile.name)
            .finish_non_exhaustive()
    }
}

impl ProfileCredentials {
    pub(crate) fn new(profile: Profile) -> ProfileCredentials {
        ProfileCredentials {
            profile,
            kept: Mutex::default(),
        }
    }

    fn fetch(&self) -> Result<(Arc<AwsCredential>, Instant), String> {
        let settings = self.profile.settings().map_err(|error| error.to_string())?;
        let now = Instant::now();
        if let Some(found) = of_settings(&settings) {
            return Ok((Arc::new(found), now + KEPT));
        }
        let name = &self.profile.name;
        if let Some(command) = settings.get("credential_process") {
            return run(command).map_err(|why| format!("the credential_process of the profile {name} failed: {why}"));
        }
        let other = ["sso_session", "sso_start_url", "role_arn", "login_session"]
            .into_iter()
            .find(|setting| settings.get(setting).is_some());
        Err(match other {
            Some(setting) => format!(
                "the profile {name} has {setting}, which ibid does not use. Give it what \
                 `aws configure export-credentials --profile {name} --format env` prints, or set credential_process to \
                 `aws configure export-credentials --profile {name}` in another profile"
            ),
            None => format!("the profile {name} has no aws_access_key_id and aws_secret_access_key"),
        })
    }
}

/// Returns whether a profile says anything of credentials.
pub(crate) fn has_credentials(settings: &Settings) -> bool {
    [
        "aws_access_key_id",
        "credential_process",
        "sso_session",
        "sso_start_url",
        "role_arn",
        "login_session",
    ]
    .into_iter()
    .any(|setting| settings.get(setting).is_some())
}

fn of_settings(settings: &Settings) -> Option<AwsCredential> {
    Some(AwsCredential {
        key_id: settings.get("aws_access_key_id")?.to_owned(),
        secret_key: settings.get("aws_secret_access_key")?.to_owned(),
        token: settings.get("aws_session_token").map(str::to_owned),
    })
}

/// Runs a program that prints credentials.
fn run(command: &str) -> Result<(Arc<AwsCredential>, Instant), String> {
    let ran = Command::new("sh")
        .args(["-c", command])
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    if !ran.status.success() {
        return Err(ran.status.to_string());
    }
    let said: serde_json::Value =
        serde_json::from_slice(&ran.stdout).map_err(|error| format!("it prints no JSON: {error}"))?;
    let text = |name: &str| said[name].as_str().map(str::to_owned);
    let (Some(key_id), Some(secret_key)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
        return Err("it prints no AccessKeyId and SecretAccessKey".into());
    };
    let token = text("SessionToken");
    let lasts = match text("Expiration") {
        // A year, for those that don't end.
        None => Duration::from_secs(365 * 24 * 3600),
        Some(end) => {
            let end: jiff::Timestamp = end.parse().map_err(|_| format!("its Expiration {end:?} is no time"))?;
            let left = SystemTime::from(end)
                .duration_since(SystemTime::now())
                .unwrap_or_default();
            left.saturating_sub(EARLY)
        }
    };
    let found = AwsCredential {
        key_id,
        secret_key,
        token,
    };
    Ok((Arc::new(found), Instant::now() + lasts))
}

#[async_trait::async_trait]
impl CredentialProvider for ProfileCredentials {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((credential, until)) = &*kept
            && Instant::now() < *until
        {
            return Ok(credential.clone());
        }
        let found = self.fetch().map_err(|why| object_store::Error::Generic {
            store: "S3",
            source: why.into(),
        })?;
        let credential = found.0.clone();
        *kept = Some(found);
        Ok(credential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_in_both_files() {
        let config = "[default]\nregion = eu-central-1\n[profile nas]\nregion=us-east-1\ns3 =\n  region = no\n\
                      # comment = no\nendpoint_url = http://nas:9000\n[nas]\nregion = wrong";
        let credentials = "[nas]\naws_access_key_id = ID\n aws_secret_access_key = indented\n\
                           aws_secret_access_key=a=b\n[other]\naws_access_key_id = OTHER";
        let found = section(config, "nas", true);
        assert_eq!(found["region"], "us-east-1");
        assert_eq!(found["endpoint_url"], "http://nas:9000");
        assert_eq!(section(config, "default", true)["region"], "eu-central-1");
        let found = section(credentials, "nas", false);
        assert_eq!(
            (
                found["aws_access_key_id"].as_str(),
                found["aws_secret_access_key"].as_str()
            ),
            ("ID", "a=b")
        );
        assert!(section(credentials, "none", false).is_empty());
    }

    #[test]
    fn files_are_read_again_and_another_kind_of_credentials_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let variables = |name: &str| (name == "HOME").then(|| folder.path().to_str().unwrap().to_owned());
        let provider = ProfileCredentials::new(Profile::named(Some("work"), &variables));
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(folder.path().join(".aws")).unwrap();
            std::fs::write(folder.path().join(".aws").join(name), text).unwrap();
        };
        assert!(
            provider
                .fetch()
                .unwrap_err()
                .contains("the profile work has no aws_access_key_id")
        );
        write("config", "[profile work]\nsso_session = corp\n");
        assert!(
            provider
                .fetch()
                .unwrap_err()
                .contains("aws configure export-credentials --profile work")
        );
        write(
            "credentials",
            "[work]\naws_access_key_id=A\naws_secret_access_key=B\naws_session_token=C",
        );
        let found = provider.fetch().unwrap().0;
        assert_eq!((found.key_id.as_str(), found.token.as_deref()), ("A", Some("C")));
    }

    #[test]
    fn a_program_gives_credentials_until_they_end() {
        let said =
            r#"{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "B", "Expiration": "2999-01-01T00:00:00Z"}"#;
        let (found, until) = run(&format!("echo '{said}'")).unwrap();
        assert_eq!((found.key_id.as_str(), found.secret_key.as_str()), ("A", "B"));
        assert!(until > Instant::now() + Duration::from_secs(1 << 30));
        assert!(run("exit 3").unwrap_err().contains('3'));
        assert!(run("echo no").unwrap_err().contains("no JSON"));
        let never = said.replace("2999-01-01T00:00:00Z", "yesterday");
        assert!(run(&format!("echo '{never}'")).unwrap_err().contains("yesterday"));
        assert!(run("echo '{}'").unwrap_err().contains("no AccessKeyId"));
        let past = said.replace("2999", "1999");
        assert!(run(&format!("echo '{past}'")).unwrap().1 <= Instant::now());
    }
}

//! Prints `records repair`.

use ibid_record::engine::LostCommits;
use ibid_repo::Result;
use ibid_terminal::number::counted;
use serde::Serialize;

use super::super::Out;

#[derive(Serialize)]
struct JsonRepair {
    repaired: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    commits_lost: Option<u64>,
}

pub(crate) fn records_repair(out: &mut Out, lost: LostCommits) -> Result<()> {
    if out.json {
        let body = JsonRepair {
            repaired: lost != LostCommits::None,
            commits_lost: match lost {
                LostCommits::None => Some(0),
                LostCommits::Number(commits) => Some(commits),
                LostCommits::Unknown => None,
            },
        };
        return out.document("records repair", None, &body);
    }
    out.line(match lost {
        LostCommits::None if out.quiet => return Ok(()),
        LostCommits::None => "nothing to repair: the log of commits is whole".to_owned(),
        LostCommits::Number(commits) => format!(
            "gave up {} that had been on disk; `ibid records verify` says whether all else is whole",
            counted(commits, "commit", "commits")
        ),
        LostCommits::Unknown => {
            "gave up the log of commits: commits that only it had, and records whose bodies were in it, are lost. \
             `ibid records verify` lists what is missing"
                .to_owned()
        }
    })
}

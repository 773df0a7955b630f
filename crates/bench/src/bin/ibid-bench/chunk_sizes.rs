//! The effect of the average chunk size: the experiment of [`crate::repositories`] with ibid alone.

use std::path::Path;

use crate::tools::{Kind, Tool};

/// Returns a tool for each average size.
pub(crate) fn tools(ibid: &Path, averages: &[String]) -> Vec<Tool> {
    let tool = |average: &String| {
        let mut tool = Kind::Ibid.tool(ibid);
        tool.label = format!("ibid-{average}");
        tool.init_options = vec!["--average".to_owned(), average.clone()];
        tool
    };
    averages.iter().map(tool).collect()
}

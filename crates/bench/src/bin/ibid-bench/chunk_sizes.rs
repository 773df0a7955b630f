//! What the average size of a chunk costs and brings: the experiment of [`crate::repositories`]
//! with ibid alone.

use std::path::Path;

use crate::tools::{Kind, Tool};

/// One tool for each average size.
pub(crate) fn tools(ibid: &Path, averages: &[String]) -> Vec<Tool> {
    let tool = |average: &String| {
        let mut tool = Kind::Ibid.tool(ibid);
        tool.label = format!("ibid-{average}");
        tool.init_options = vec!["--average".to_owned(), average.clone()];
        tool
    };
    averages.iter().map(tool).collect()
}

//! Tables of text.

use unicode_width::UnicodeWidthStr;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To the left, for text.
    Left,
    /// To the right, for numbers.
    Right,
}

/// Rows of cells. Each column is as wide as its widest cell on a terminal.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table with a row of titles.
    pub fn new(header: &[(&str, Align)]) -> Table {
        let titles = header.iter().map(|(title, _)| (*title).to_owned()).collect();
        Table {
            columns: header.iter().map(|(_, align)| *align).collect(),
            rows: vec![titles],
        }
    }

    /// Returns a table without titles.
    pub fn bare(columns: &[Align]) -> Table {
        Table {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, which must have a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Returns the rows as lines without spaces at their ends.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let width = |column: usize| self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        self.rows.iter().map(move |row| {
            let mut line = String::new();
            for ((cell, align), width) in row.iter().zip(&self.columns).zip(&widths) {
                let padding = " ".repeat(width - cell.width());
                match align {
                    Align::Left => line.extend([cell, padding.as_str(), "  "]),
                    Align::Right => line.extend([padding.as_str(), cell, "  "]),
                }
            }
            line.truncate(line.trim_end().len());
            line
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_count_twice() {
        let mut table = Table::new(&[("name", Align::Left), ("size", Align::Right)]);
        table.row(vec!["漢字漢字".into(), "1".into()]);
        table.row(vec!["a".into(), "12345".into()]);
        let lines: Vec<String> = table.lines().collect();
        assert_eq!(lines, ["name       size", "漢字漢字      1", "a         12345"]);
    }
}

//! Figures as text.

use std::fmt;

/// The middle one, or the mean of the two in the middle.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// Shares of the reference, round by round: their median, the least and the most.
pub fn ratio(figures: &[f64], reference: &[f64]) -> String {
    let shares: Vec<f64> = figures.iter().zip(reference).map(|(a, b)| a / b).collect();
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({least:.2}-{most:.2})", median(&shares))
}

/// Lines of words in columns, as Markdown has them.
pub struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headings: Vec<String>) -> Self {
        Self {
            lines: vec![headings],
        }
    }

    pub fn add(&mut self, line: Vec<String>) {
        self.lines.push(line);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.lines[0].len();
        let width = |column: usize| {
            let words = self.lines.iter().map(|line| line[column].len());
            words.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, line) in self.lines.iter().enumerate() {
            for (word, width) in line.iter().zip(&widths) {
                write!(to, "| {word:<width$} ")?;
            }
            writeln!(to, "|")?;
            if number == 0 {
                for width in &widths {
                    write!(to, "|-{:-<width$}-", "")?;
                }
                writeln!(to, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn shares_are_of_the_same_round() {
        assert_eq!(
            ratio(&[1.0, 20.0, 3.0], &[2.0, 20.0, 4.0]),
            "0.75 (0.50-1.00)"
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_word() {
        let mut table = Table::new(vec!["a".into(), "long".into()]);
        table.add(vec!["bcd".into(), "e".into()]);
        assert_eq!(
            table.to_string(),
            "| a   | long |\n|-----|------|\n| bcd | e    |\n"
        );
    }
}

//! Plots as SVG, drawn by the server.

use crate::html::{Html, text};

/// Width and height of a plot in its own units.
const SIZE: (f64, f64) = (600.0, 120.0);

/// One bar: its title, and its parts from bottom to top with their tones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub(crate) title: String,
    pub(crate) parts: Vec<(&'static str, f64)>,
}

/// Bars of equal width. `about` is what a reader hears who does not see them.
pub(crate) fn bars(bars: &[Bar], about: &str) -> Html {
    let whole = |bar: &Bar| bar.parts.iter().map(|(_, value)| value).sum::<f64>();
    let most = bars.iter().map(whole).fold(0.0, f64::max).max(1e-9);
    let (width, height) = SIZE;
    let each = width / bars.len().max(1) as f64;
    let mut out = open(about);
    for (index, bar) in bars.iter().enumerate() {
        let x = each * index as f64;
        let mut y = height;
        out.push_str("<g>");
        for (tone, value) in &bar.parts {
            let tall = value / most * (height - 6.0);
            y -= tall;
            if tall > 0.0 {
                out.push_str(&format!(
                    "<rect class=\"{tone}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{tall:.1}\"/>",
                    (each - 2.0).max(1.0)
                ));
            }
        }
        out.push_str(&format!(
            "<rect class=\"hit\" x=\"{x:.1}\" width=\"{each:.1}\" height=\"{height}\"><title>{}</title></rect></g>",
            text(&bar.title)
        ));
    }
    out.push_str("</svg>");
    Html(out)
}

/// Lines over the same steps; a step without a value is a gap.
pub(crate) fn lines(lines: &[(&'static str, Vec<Option<f64>>)], about: &str) -> Html {
    let values = lines.iter().flat_map(|(_, values)| values.iter().flatten());
    let most = values.fold(0.0_f64, |most, value| most.max(*value)).max(1e-9);
    let (width, height) = SIZE;
    let mut out = open(about);
    for (tone, values) in lines {
        let step = width / values.len().max(1) as f64;
        let mut path = String::new();
        let mut is_drawing = false;
        for (index, value) in values.iter().enumerate() {
            let Some(value) = value else {
                is_drawing = false;
                continue;
            };
            let (x, y) =
                (step * (index as f64 + 0.5), height - 3.0 - value / most * (height - 9.0));
            let command = if is_drawing { 'L' } else { 'M' };
            // A value between two gaps is a dot: a line of no length with round ends.
            path.push_str(&format!("{command}{x:.1} {y:.1}L{x:.1} {y:.1}"));
            is_drawing = true;
        }
        out.push_str(&format!("<path class=\"line {tone}\" d=\"{path}\"/>"));
    }
    out.push_str("</svg>");
    Html(out)
}

fn open(about: &str) -> String {
    let ((width, height), about) = (SIZE, text(about));
    let (third, two) = (height / 3.0, height / 1.5);
    format!(
        "<svg class=\"plot\" viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{about}\"><path class=\"grid\" d=\"M0 {third:.1}H{width}M0 {two:.1}H{width}\"/>\
         <path class=\"base\" d=\"M0 {height}H{width}\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bar_fills_the_plot_and_titles_are_inert() {
        let bar =
            |value| Bar { title: "<b>".to_owned(), parts: vec![("good", value), ("bad", 0.0)] };
        let plot = bars(&[bar(1.0), bar(2.0)], "calls").0;
        assert!(plot.contains("height=\"57.0\"") && plot.contains("height=\"114.0\""), "{plot}");
        assert!(plot.contains("&lt;b&gt;") && !plot.contains("<b>"));
        assert!(bars(&[], "none").0.ends_with("</svg>"));
    }

    #[test]
    fn a_gap_breaks_a_line() {
        let plot = lines(&[("busy", vec![Some(1.0), None, Some(1.0)])], "latency").0;
        assert_eq!(plot.matches('M').count(), 5, "{plot}");
    }
}

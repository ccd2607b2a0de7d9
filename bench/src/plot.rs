//! Bar charts as SVG, readable on light and on dark paper.

use crate::statistics::{Spread, grouped};
use std::fmt::Write as _;

/// The width of a chart, in pixels.
const WIDTH: f64 = 900.0;
/// The left end of bars; names are to the left.
const LEFT: f64 = 190.0;
/// The end of the axis; figures may be to the right.
const RIGHT: f64 = 800.0;
/// From one bar to the next.
const ROW: f64 = 22.0;
/// Above the bars of a panel: its title.
const HEAD: f64 = 34.0;
/// Below the bars of a panel: its axis with the unit.
const FOOT: f64 = 48.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#333}\
.title{font-size:15px;font-weight:600}.small{font-size:11px;fill:#666}\
.grid{stroke:#999;stroke-opacity:.35}.whisker{stroke:#333;stroke-width:1.5}.one{stroke:#333;stroke-dasharray:4 3}\
.yardstick{fill:#8a8f98}.oribi{fill:#3b82c4}.peer{fill:#c08a4e}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.small{fill:#aaa}.whisker,.one{stroke:#ddd}}";

/// One bar.
#[derive(Debug)]
pub struct Bar {
    /// The group that decides the colour.
    pub colour: Colour,
    /// The text beside it.
    pub title: String,
    /// Its length, and its whisker.
    pub figure: Spread,
}

/// The group of a bar, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The reference for the others.
    Yardstick,
    /// Oribi's.
    Own,
    /// Another server's.
    Peer,
}

/// Bars that share an axis.
#[derive(Debug)]
pub struct Panel {
    /// The text above it.
    pub title: String,
    /// The unit of the axis.
    pub unit: &'static str,
    /// From top to bottom.
    pub bars: Vec<Bar>,
    /// The place of a dashed line for "as much as the yardstick".
    pub reference: Option<f64>,
    /// Decimal places of the figures.
    pub digits: usize,
}

impl Panel {
    fn figure(&self, figure: f64) -> String {
        if self.digits == 0 { grouped(figure) } else { format!("{figure:.digits$}", digits = self.digits) }
    }
}

/// A picture of all panels that have a bar, one below the other.
pub fn draw(title: &str, panels: &[Panel]) -> String {
    let panels: Vec<&Panel> = panels.iter().filter(|panel| !panel.bars.is_empty()).collect();
    let height = panels.iter().fold(40.0, |sum, panel| sum + panel_height(panel));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<text x=\"16\" y=\"26\" class=\"title\">{title}</text>\n"
    );
    let mut top = 40.0;
    for panel in panels {
        draw_panel(&mut svg, panel, top);
        top += panel_height(panel);
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel_height(panel: &Panel) -> f64 {
    HEAD + ROW * panel.bars.len() as f64 + FOOT
}

fn draw_panel(svg: &mut String, panel: &Panel, top: f64) {
    let longest = panel.bars.iter().map(|bar| bar.figure.high).fold(panel.reference.unwrap_or(0.0), f64::max);
    let step = tick_step(longest);
    let end = (longest / step).ceil().max(1.0) * step;
    let x = |figure: f64| LEFT + (RIGHT - LEFT) * figure / end;
    let (first, bottom) = (top + HEAD, top + HEAD + ROW * panel.bars.len() as f64);
    let _ = writeln!(svg, "<text x=\"16\" y=\"{:.1}\" class=\"title\">{}</text>", top + 20.0, escape(&panel.title));
    for tick in 0..=(end / step).round() as u32 {
        let figure = f64::from(tick) * step;
        let at = x(figure);
        let shown = if step < 1.0 { format!("{figure:.1}") } else { grouped(figure) };
        let _ = writeln!(svg, "<path d=\"M{at:.1} {first:.1}V{bottom:.1}\" class=\"grid\"/>");
        let label = format!("<text x=\"{at:.1}\" y=\"{:.1}\" class=\"small\" text-anchor=\"middle\">", bottom + 15.0);
        let _ = writeln!(svg, "{label}{shown}</text>");
    }
    for (index, bar) in panel.bars.iter().enumerate() {
        draw_bar(svg, bar, first + ROW * index as f64, &panel.figure(bar.figure.median), &x);
    }
    if let Some(reference) = panel.reference {
        let _ = writeln!(svg, "<path d=\"M{:.1} {first:.1}V{bottom:.1}\" class=\"one\"/>", x(reference));
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" class=\"small\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, RIGHT),
        bottom + 31.0,
        escape(panel.unit)
    );
}

fn draw_bar(svg: &mut String, bar: &Bar, top: f64, shown: &str, x: &impl Fn(f64) -> f64) {
    let class = match bar.colour {
        Colour::Yardstick => "yardstick",
        Colour::Own => "oribi",
        Colour::Peer => "peer",
    };
    let (text, middle) = (top + 15.0, top + 11.0);
    let (median, low, high) = (x(bar.figure.median), x(bar.figure.low), x(bar.figure.high));
    let title = escape(&bar.title);
    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{title}</text>", LEFT - 8.0);
    let shape = format!("x=\"{LEFT:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"", top + 3.0, median - LEFT, ROW - 6.0);
    let _ = writeln!(svg, "<rect {shape} class=\"{class}\"/>");
    if bar.figure.high > bar.figure.low {
        let _ = writeln!(svg, "<path d=\"M{low:.1} {middle:.1}H{high:.1}\" class=\"whisker\"/>");
    }
    let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{text:.1}\">{shown}</text>", high.max(median) + 7.0);
}

/// A step of 1, 2 or 5 times a power of ten that gives four to ten ticks.
fn tick_step(longest: f64) -> f64 {
    let rough = (longest / 8.0).max(0.1);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough).unwrap_or(10.0 * power)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(figures: &[f64]) -> Panel {
        let bars = figures.iter().map(|figure| Bar {
            colour: Colour::Peer,
            title: "A & B".to_owned(),
            figure: Spread { median: *figure, low: *figure, high: *figure },
        });
        Panel { title: "<Title>".to_owned(), unit: "things", bars: bars.collect(), reference: Some(1.0), digits: 2 }
    }

    #[test]
    fn ticks_are_round_and_few() {
        for longest in [0.7, 1.0, 3.3, 11.6, 40.0, 367_019.0] {
            let step = tick_step(longest);
            let ticks = (longest / step).ceil();
            assert!((4.0..=10.0).contains(&ticks), "{longest}: {ticks} ticks of {step}");
        }
    }

    #[test]
    fn text_is_escaped_and_every_bar_drawn() {
        let svg = draw("t", &[panel(&[1.0, 11.5]), panel(&[])]);
        assert!(svg.contains("&lt;Title&gt;") && svg.contains("A &amp; B"));
        assert_eq!(svg.matches("<rect").count(), 2);
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn no_bar_leaves_the_picture() {
        let svg = draw("t", &[panel(&[1.0, 40.0, 39.9])]);
        for part in svg.split(" x=\"").skip(1) {
            let at: f64 = part.split('"').next().and_then(|text| text.parse().ok()).expect("a number");
            assert!((0.0..WIDTH - 30.0).contains(&at), "{at}");
        }
    }
}

//! Dependency cycles between the files of a crate.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::arrows::{Arrow, Crate};
use crate::tidy::finding::Finding;

/// Node of a graph: the room of a module, or the file of the module to which the level belongs.
type Node<'a> = &'a [String];

/// Dependencies of one level of a crate, the first one for each pair of nodes.
#[derive(Default)]
struct Graph<'a> {
    arrows: BTreeMap<Node<'a>, BTreeMap<Node<'a>, &'a Arrow>>,
}

/// Finds the cycles of a crate.
pub(super) fn check(files: &Crate<'_>, arrows: &[Arrow]) -> Vec<Finding> {
    let mut levels = BTreeMap::<&[String], Graph<'_>>::new();
    for arrow in arrows {
        let common = arrow.from.iter().zip(&arrow.to).take_while(|(from, to)| from == to).count();
        // A file whose path is the common prefix is a node itself; any other file is represented by its room.
        let node = |module: &'_ [String]| module.len().min(common + 1);
        let (from, to) = (&arrow.from[..node(&arrow.from)], &arrow.to[..node(&arrow.to)]);
        levels.entry(&arrow.from[..common]).or_default().add(from, to, arrow);
    }
    levels.values().flat_map(|level| level.circles()).map(|circle| finding(files, &circle)).collect()
}

impl<'a> Graph<'a> {
    fn add(&mut self, from: Node<'a>, to: Node<'a>, arrow: &'a Arrow) {
        self.arrows.entry(from).or_default().entry(to).or_insert(arrow);
    }

    /// Returns cycles such that every node on some cycle is on a returned one.
    fn circles(&self) -> Vec<Vec<&'a Arrow>> {
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for start in self.arrows.keys() {
            if !seen.contains(start)
                && let Some(circle) = self.circle(start)
            {
                seen.extend(circle.iter().map(|(from, _)| *from));
                circles.push(circle.into_iter().map(|(_, arrow)| arrow).collect());
            }
        }
        circles
    }

    /// Returns the shortest path from a node back to itself, each dependency with the node that it starts
    /// from.
    fn circle(&self, start: Node<'a>) -> Option<Vec<(Node<'a>, &'a Arrow)>> {
        // Breadth first: the first way back is a shortest one.
        let mut came_by = BTreeMap::<Node<'a>, (Node<'a>, &'a Arrow)>::new();
        let mut waiting = VecDeque::from([start]);
        while let Some(node) = waiting.pop_front() {
            for (to, arrow) in self.arrows.get(node).into_iter().flatten() {
                if *to == start {
                    let mut way = vec![(node, *arrow)];
                    while way[way.len() - 1].0 != start {
                        way.push(came_by[way[way.len() - 1].0]);
                    }
                    way.reverse();
                    return Some(way);
                }
                if !came_by.contains_key(to) {
                    came_by.insert(to, (node, arrow));
                    waiting.push_back(to);
                }
            }
        }
        None
    }
}

/// Describes a cycle file by file, at the line of its first dependency.
fn finding(files: &Crate<'_>, circle: &[&Arrow]) -> Finding {
    let mut way = String::new();
    let mut at: Option<&Arrow> = None;
    for arrow in circle {
        // Consecutive dependencies may meet in different files of the same room.
        if at.is_none_or(|at| at.to != arrow.from) {
            let comma = if way.is_empty() { "" } else { ", " };
            way += &format!("{comma}{}", files.path(&arrow.from));
        }
        way += &format!(" → {}", files.path(&arrow.to));
        at = Some(arrow);
    }
    let message = format!("uses itself: {way}; move what both need into a file of its own");
    circle[0].finding(files.path(&circle[0].from), &message)
}

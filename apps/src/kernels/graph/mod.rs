//! Breadth-first search and PageRank on a graph in compressed sparse rows: a file that is looked at through a cache of pages, or arrays in the
//! device's memory. Both run the same code, and so make the same numbers.
//!
//! A launch is one level of the search, or one round of PageRank. A warp draws some vertices; each lane finds where the neighbours of one of them
//! are, and then all lanes take the neighbours of one vertex after the other, side by side.
//!
//! | file | what |
//! |---|---|
//! | `rows.rs` | a graph, where it lies, and a warp's walk along the neighbours of vertices |
//! | `search.rs` | breadth-first search |
//! | `rank.rs` | PageRank, in whole numbers: the order in which lanes add makes no difference |

mod rank;
mod rows;
mod search;

#[cfg(feature = "host")]
pub use rank::part_of_one;
pub use rank::{Ranking, first_rank, rank_cached, rank_plain, settle, settled};
pub use rows::{COUNTERS, Rows, Trouble};
pub use search::{Search, UNSEEN, search_cached, search_plain};

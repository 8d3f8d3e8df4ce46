//! Streams that several threads open by the same path: the rules of [`shared`](crate::shared), whose states these are.
//!
//! **R-SHARE-1** *An entry is begun only under the table's lock*, by a lane that has seen there that no entry but FREE ones has its key. So
//! there is never more than one entry of a key.
//!
//! **R-SHARE-2** *Key and path stay from OPENING to FREE.* They are written before OPENING is published. A lane that joins exchanges the word
//! that it saw before it compared, which holds the epoch. So it joins what it compared.
//!
//! **R-SHARE-3** *One lane makes each transition out of OPENING and CLOSING*: the one that opens, and the one whose leaving took the last
//! count.
//!
//! **R-SHARE-4** *A count keeps the entry.* A lane that has joined an entry that is OPENING learns the result from the entry, the stream or the
//! errno. The entry is not FREE before all that joined have left.
//!
//! **R-SHARE-5** *The holder of the table's lock waits for nothing*, and a lane that opens or closes holds nothing of another entry. So a lane
//! that waits for an entry that is OPENING, CLOSING or FAILED waits for the kernel at most, and for lanes that only have to leave.
//!
//! **R-SHARE-6** *A stream that emptied its file when it was opened is remembered.* Its entry is FREE for `begin`, and keeps its key and path,
//! which are read under the table's lock alone. A lane that opens them again before the kernels have ended, or before the entry was needed
//! for another path, is told so, and goes on at the end of the file instead of emptying it: threads that come and go do not undo each
//! other's output. The host forgets all of them when no kernel runs.

//! Pages of files in device memory: the rules of [`cache`](crate::cache), whose states these are.
//!
//! **R-CACHE-1** *A page is in one frame at most.* A frame gets a key under the lock of its set alone, by a lane that has seen there that no
//! frame of the set has it; or it is the one frame in which the page may be ([R-CACHE-9]). A page's set follows from its key. A key stays from
//! FILLING until the frame is another's or EMPTY.
//!
//! **R-CACHE-2** *Only what nobody uses goes.* A frame leaves READY under its set's lock, by one exchange of the very word that was seen: READY,
//! no pin, no guard, neither DIRTY nor WRITING. A lane that pins adds first and looks afterwards: it finds READY and the page's key in what it
//! added to, or takes its pin back and touches nothing. Such a stray pin delays an exchange, and changes nothing else.
//!
//! **R-CACHE-3** *The holder of a set's lock waits for nothing*, and nobody waits for the lock: it is tried for, and a lane that fails drains,
//! naps and begins again, as after every other failed try. A lane that sees no frame of the set that might be taken does not try for it.
//!
//! **R-CACHE-4** *Nobody waits for a page while it holds what the page may need.* A lane holds, while it waits for a page, no pin, no frame that
//! is FILLING and none that is WRITING. It first ends what it has begun: it brings or writes what it took, waiting for the kernel alone
//! ([L-PROGRESS a] to [L-PROGRESS c]), then uses and unpins what it has pinned, and then looks again. The lanes of a warp that miss
//! together go through these steps together.
//!
//! **R-CACHE-5** *A guard may be kept over a wait, and a set has one frame without.* A guard is a pin that its lane keeps: of a slice, or of the page
//! that a view remembers. Only frames that are KEEPABLE have guards, and at most `WAYS − 1` of a set are. The mark is set under the set's lock,
//! of a frame that is READY there. Where as many others have it, one that has no guard loses it first, by one exchange of the very word that was
//! seen. It goes with the page, by the exchange of [R-CACHE-2]. A lane adds its guard and looks afterwards: it finds the mark in what it added to,
//! and, where it has no pin, the page's key behind it. Otherwise it takes the guard back and touches nothing. Such a stray guard delays an
//! exchange, and changes nothing else. Ending one needs no lock, and the mark stays, for the next.
//! One more is refused, never waited for: `EBUSY` for a slice; a view that cannot remember a page looks for it at each access.
//! So is one more of a frame that has 2²³ − 1 of them, which a kernel that forgets its slices reaches.
//! Whatever its pages, a session may have `WAYS − 1` distinct ones guarded.
//!
//! **R-CACHE-6** *What was stored is written, or still marked.* A lane that stores marks the page DIRTY after its stores, while it has it pinned or
//! guarded. The lane that writes a page takes the mark first, and copies then: what it copies has every store whose mark it took, and a later store's
//! mark stays. One lane writes a page at a time (WRITING), so that an older content never comes after a newer one. Where the write fails,
//! the mark is set again.
//!
//! **R-CACHE-7** *A flush waits for the writes of others.* It writes each page of its mapping that it finds DIRTY. Where it finds WRITING it looks
//! again until that is over: what the other copied had its stores, or the mark is there.
//!
//! **R-CACHE-8** *A glance takes no pin, and believes nothing that changed meanwhile.* Each page that comes to a frame has an edition of its own.
//! Taking the frame for another page ends the edition after the exchange of [R-CACHE-2], and a fence comes before what else it stores: the key, the
//! bytes. `filled` begins the next, after them. A lane that glances loads the edition, then the key, then bytes, each by acquiring loads, and
//! then the edition again: if that is the same and had not ended, they are the page's. Otherwise it throws them away, and pins. It has done
//! nothing with them. Its loads of bytes may run beside another lane's plain stores of the next page; what they return is then no value that is
//! used.
//!
//! **R-CACHE-9** *A page with a frame of its own stays.* Where the frames that nobody has suffice for all pages that a file has when the host
//! maps it, they are theirs, one behind the other, in whole sets that no other page's key chooses. The host says so while no kernel runs, and
//! has forgotten what was in them. A lane takes such a frame for its page by an exchange of EMPTY for FILLING, without a lock; it is never a
//! victim, and every page of such a set may be KEEPABLE. So a lane that finds its edition begun, by an acquiring load, reads the page by its
//! address, without a pin, for as long as the kernel runs; one that finds it READY stores there, and marks it as [R-CACHE-6] says. A lane that has
//! filled one with as many bytes as the file had of it takes 1 off the mapping's count of absent pages, behind `filled`. A lane that finds that
//! count 0, by an acquiring load, does so with all of the pages. Pages beyond those have their place among the sets that are nobody's.
//!
//! # Proofs
//!
//! **P-CACHE-READ** *A lane that has pinned a page reads that page.* Its addition found READY, so it acquired what `filled` released: the bytes, the
//! length and the key. Its pin stands in the word, so no exchange of [R-CACHE-2] succeeds before it is taken off, and that is a release which
//! the evictor acquires. So whoever overwrites the frame does so after the lane's last look. `loom_cache`: `read_or_evict`.
//!
//! **P-CACHE-GLANCE** *A glance that counts is of one page.* Its first look acquired `filled` of an edition, so that it sees the key and the bytes
//! of that one or of later ones. If the key or a byte is of a later one, its load acquired a store behind the fence of [R-CACHE-8], and the
//! second look sees the end of the edition: the words differ, as no number of pages comes back within a glance (2⁴⁰). A lane's store to a writable
//! page is of the edition, and a load may see it or not. `loom_cache`: `glance_or_evict`.
//!
//! **P-CACHE-WHOLE** *A lane that finds no page absent reads each page.* A page is taken off the count once: its frame is EMPTY before, and what
//! is READY in it stays, since no other key leads to its set, and nobody evicts by its own ([R-CACHE-9]). Each change of the count is a release,
//! and one of those before goes on with their sequence, so an acquiring load of the last value acquires what every lane did before its own: the
//! bytes of its page, and that it is READY. The edition of one page says as much of its bytes alone. A page that is not whole, as the file was
//! cut or a read failed, leaves the count above 0. `loom_cache`: `whole_or_brought`, `one_brings_its_own`.
//!
//! **P-CACHE-ONCE** *A page is brought by one lane at a time.* Keys are set under one lock, after a look at all frames that could have the key
//! ([R-CACHE-1]). A look may find the key of a frame whose fill has just failed: then the lane looks again. It cannot miss one, since only
//! holders of the lock set keys. A frame of a page's own is taken by an exchange, which one lane succeeds in. `loom_cache`: `one_brings`,
//! `one_brings_its_own`.
//!
//! **P-CACHE-STORE** *No store is lost.* Mark and take are changes of one word. If the mark comes before the take, the take acquires the store, and
//! the copy has it. Otherwise the mark is there after the take, and with it the page cannot go ([R-CACHE-2]). `loom_cache`: `store_and_write`.
//!
//! **P-CACHE-PROGRESS** *A page comes, or an error.* A lane that waits for a page finds one of these:
//!
//! - The page in transit, or a frame that is FILLING or WRITING. Its lane waits for the kernel alone ([R-CACHE-4]), and the page is READY or the
//!   frame EMPTY soon, whether or not any other warp runs.
//! - Every frame of the set pinned or guarded. One at least is not KEEPABLE ([R-CACHE-5]): its guards are stray. So they end, and so do its
//!   pins, which are of lanes that wait for no page, or stray. Then the frame is EMPTY, clean, or dirty: the lane takes it, or writes it and
//!   begins again. Where that write fails, its error is the lane's: no room can be had.
//! - The set's lock busy: its holder waits for nothing.
//! - The page has a frame of its own: that is EMPTY, and the lane takes it, or FILLING, as above. Nobody else wants it.
//!
//! No lane of this list waits for another that waits for a page. So in every schedule some lane of those that wait goes on. A lane may be
//! overtaken by others; nothing bounds how often, as with slots. `loom_cache`: `guards_leave_room`.

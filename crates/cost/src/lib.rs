//! The meter and the price books: what a query did and what it cost.

// Package app is what the two programs of examples/service have in common: two
// pipelines over the topic orders, the database they save in, and the answers
// over HTTP. How it is put together is theirs.
package app

//! #DW and #BB job directives: text to typed directives and back.

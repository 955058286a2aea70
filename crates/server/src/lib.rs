//! Metadata service, data service and fragment store of DWFS.

"""Work items in processes of this machine or of a cluster."""

"""Pictures from files and to files: .npz, folders of PNG, JPEG or DICOM files with a list of labels."""

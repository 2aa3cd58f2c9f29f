package main

import "io/fs"

// filesOnly hides directories, so that nothing is listed.
type filesOnly struct{ fs.FS }

func (f filesOnly) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil || info.IsDir() {
		_ = file.Close() // opened for reading only
		return nil, fs.ErrNotExist
	}
	return file, nil
}

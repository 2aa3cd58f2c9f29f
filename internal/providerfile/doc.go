// Package providerfile keeps a provider.Set true to the providers file: it reads the file at the start,
// and again when its content changed.
package providerfile

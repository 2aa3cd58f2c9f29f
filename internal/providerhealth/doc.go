// Package providerhealth writes the health of each configured provider entry into a ProviderHealth
// object of its name: what the entry's Checker says of its hosts, or what is wrong with the entry.
package providerhealth

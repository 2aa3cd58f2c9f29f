package main

import "testing"

func TestModuleSymbols_readsAModuleOfGoMod(t *testing.T) {
	symbols, err := moduleSymbols(t.Context(), libvirtModule)
	if err != nil {
		t.Fatalf("read %s: %v", libvirtModule, err)
	}
	for name, want := range map[string]bool{"DomainDefineXML": true, "ErrNoDomain": true, "DomainMake": false} {
		if symbols[name] != want {
			t.Errorf("symbol %s: found is %v, want %v", name, symbols[name], want)
		}
	}
}

func TestModuleSymbols_unknownModuleIsAnError(t *testing.T) {
	if _, err := moduleSymbols(t.Context(), "example.net/gone"); err == nil {
		t.Error("no error: evidence from a module that is not in go.mod would pass unread")
	}
}

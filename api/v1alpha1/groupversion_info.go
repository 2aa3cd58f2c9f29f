// Package v1alpha1 holds the API of group egress.hrajfrisbee.cz: Proxy, a forward proxy on a VM of a
// configured provider, and ProviderHealth, the health of one configured provider.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=egress.hrajfrisbee.cz
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion of the API, under the name that generated code looks for.
var SchemeGroupVersion = schema.GroupVersion{Group: "egress.hrajfrisbee.cz", Version: "v1alpha1"}

// SchemeBuilder and AddToScheme register the types.
var (
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	AddToScheme   = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &Proxy{}, &ProxyList{}, &ProviderHealth{}, &ProviderHealthList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

package control

import (
	"k8s.io/client-go/tools/cache"
)

// handle turns two functions into a handler of a shared cache's news. set gets
// the object and what it was before, nil if it is new; remove gets the last that
// was known of an object that is gone.
func handle[T any](set func(old, object *T), remove func(object *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if typed, ok := object.(*T); ok {
				set(nil, typed)
			}
		},
		UpdateFunc: func(before, object any) {
			old, _ := before.(*T)
			if typed, ok := object.(*T); ok {
				set(old, typed)
			}
		},
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if typed, ok := object.(*T); ok {
				remove(typed)
			}
		},
	}
}

// A non-owning reference to a callable object: two words, no allocation. The callable must outlive
// the call that the reference is passed to, so it is for parameters only.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace thaw {

template <typename Signature>
class FunctionRef;

template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
    requires(std::is_class_v<std::remove_cvref_t<F>> &&
             !std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, F&, Args...>)
  // Implicit, as a parameter type is, and for callables alone: copies go elsewhere.
  // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload)
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace thaw

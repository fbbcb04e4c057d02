//===- RuntimeEnums.h - enums of the runtime as attributes ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Ops hold the enums of runtime/Enums.h and Optimizers.h themselves, so that
// nothing is converted between the IR and the emitted program.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_RUNTIMEENUMS_H
#define DIALECTS_DIST_RUNTIMEENUMS_H

#include "runtime/EnumTexts.h"
#include "runtime/Optimizers.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringExtras.h"

namespace dt {

/// An i32 whose value is the number of a case.
template <typename E> class RuntimeEnumAttr : public mlir::IntegerAttr {
public:
  using ValueType = E;
  using IntegerAttr::IntegerAttr;
  static bool classof(mlir::Attribute attribute) {
    auto number = llvm::dyn_cast<mlir::IntegerAttr>(attribute);
    return number && number.getType().isSignlessInteger(32) &&
           rt::hasCase<E>(number.getValue().getZExtValue());
  }
  static RuntimeEnumAttr get(mlir::MLIRContext *context, E value) {
    auto type = mlir::IntegerType::get(context, 32);
    return llvm::cast<RuntimeEnumAttr>(
        mlir::IntegerAttr::get(type, int64_t(value)));
  }
  E getValue() const { return E(IntegerAttr::getValue().getZExtValue()); }
};

namespace rt {
using CollectiveKindAttr = RuntimeEnumAttr<CollectiveKind>;
using ContextKeysAttr = RuntimeEnumAttr<ContextKeys>;
using EmptyRowAttr = RuntimeEnumAttr<EmptyRow>;
using OptimizerKindAttr = RuntimeEnumAttr<OptimizerKind>;
using ReductionAttr = RuntimeEnumAttr<Reduction>;
using SaveAttr = RuntimeEnumAttr<Save>;
using ScheduleKindAttr = RuntimeEnumAttr<ScheduleKind>;
using SlotKindAttr = RuntimeEnumAttr<SlotKind>;
using TaskKindAttr = RuntimeEnumAttr<TaskKind>;
} // namespace rt

/// "none, intra, inter, both": the texts of all cases, for errors.
template <typename E> std::string listTexts() {
  return llvm::join(llvm::map_range(rt::EnumTable<E>::cases,
                                    [](const rt::EnumCase &c) {
                                      return llvm::StringRef(c.text);
                                    }),
                    ", ");
}

/// custom<RuntimeEnum>: the text of the case as a keyword or a string.
template <typename E>
mlir::ParseResult parseRuntimeEnum(mlir::OpAsmParser &parser,
                                   RuntimeEnumAttr<E> &attribute) {
  llvm::SMLoc at = parser.getCurrentLocation();
  std::string text;
  std::optional<E> value;
  if (succeeded(parser.parseOptionalKeywordOrString(&text)))
    value = rt::fromText<E>(text);
  if (!value)
    return parser.emitError(at, "expected one of ") << listTexts<E>();
  attribute = RuntimeEnumAttr<E>::get(parser.getContext(), *value);
  return mlir::success();
}

template <typename E>
void printRuntimeEnum(mlir::OpAsmPrinter &printer, mlir::Operation *,
                      RuntimeEnumAttr<E> attribute) {
  printer << rt::textOf(attribute.getValue());
}

/// custom<Saves>: `[none, all]`, a saved set for each stage.
inline mlir::ParseResult parseSaves(mlir::OpAsmParser &parser,
                                    mlir::ArrayAttr &list) {
  llvm::SmallVector<mlir::Attribute> saves;
  auto one = [&] {
    rt::SaveAttr save;
    mlir::ParseResult result = parseRuntimeEnum(parser, save);
    saves.push_back(save);
    return result;
  };
  if (parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, one))
    return mlir::failure();
  list = mlir::ArrayAttr::get(parser.getContext(), saves);
  return mlir::success();
}

inline void printSaves(mlir::OpAsmPrinter &printer, mlir::Operation *,
                       mlir::ArrayAttr list) {
  printer << "[";
  llvm::interleaveComma(
      list.getAsRange<rt::SaveAttr>(), printer,
      [&](rt::SaveAttr save) { printer << rt::textOf(save.getValue()); });
  printer << "]";
}

/// (custom<OptionalRuntimeEnum>($name)^)?: nothing for the default.
template <typename E>
mlir::OptionalParseResult
parseOptionalRuntimeEnum(mlir::OpAsmParser &parser,
                         RuntimeEnumAttr<E> &attribute) {
  for (const rt::EnumCase &one : rt::EnumTable<E>::cases)
    if (succeeded(parser.parseOptionalKeyword(one.text))) {
      attribute = RuntimeEnumAttr<E>::get(parser.getContext(),
                                          *rt::fromText<E>(one.text));
      return mlir::success();
    }
  return std::nullopt;
}

template <typename E>
void printOptionalRuntimeEnum(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                              RuntimeEnumAttr<E> attribute) {
  printRuntimeEnum(printer, op, attribute);
}

} // namespace dt

#endif // DIALECTS_DIST_RUNTIMEENUMS_H
